"""One process at a time in a folder, and no lock that outlives its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elmokit.disk.lock import LOCK, locked
from elmokit.errors import OutputError

pytest.importorskip("fcntl")


def test_one_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "run"
    with locked(folder):
        with pytest.raises(OutputError, match="run: another process is writing it; wait for it"), locked(folder):
            pass
        assert (folder / LOCK).exists()
        (folder / "work").touch()
    assert [path.name for path in folder.iterdir()] == ["work"]
    with locked(folder):
        pass


def test_an_empty_folder_goes_with_its_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "run"):
        raise ZeroDivisionError
    assert not (tmp_path / "run").exists()


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from elmokit.disk.lock import locked\n"
        "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "run")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"locked\n"
        with pytest.raises(OutputError, match="another process"), locked(tmp_path / "run"):
            pass
        os.kill(process.pid, signal.SIGKILL)
    assert (tmp_path / "run" / LOCK).exists()
    with locked(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="run: cannot be written"), locked(tmp_path / "file" / "run"):
        pass
