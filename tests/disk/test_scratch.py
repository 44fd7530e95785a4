"""Scratch folders beside an output: names, locks, and what is left by dead and living processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elmokit.disk.scratch import OLD, is_scratch, remove_leftovers, scratch
from elmokit.disk.sync import HAS_FOLDER_LOCKS

pytestmark = pytest.mark.skipif(not HAS_FOLDER_LOCKS, reason="needs locks on folders")
CODE = """
import sys, time
from pathlib import Path
from elmokit.disk.scratch import scratch
with scratch(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half of it")
    print(folder.name, flush=True)
    time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_scratch_folder_is_hidden_and_removed(tmp_path: Path) -> None:
    with scratch(tmp_path / "vectors.h5") as folder:
        assert folder.parent == tmp_path and folder.name.startswith(".vectors.h5.elmokit-")
        assert is_scratch(folder) and not is_scratch(tmp_path)
        (folder / "inner").mkdir()
    assert names(tmp_path) == []
    with pytest.raises(KeyError), scratch(tmp_path / "vectors.h5"):
        raise KeyError
    assert names(tmp_path) == []


def test_an_old_version_gets_its_name_back(tmp_path: Path) -> None:
    with scratch(tmp_path / "run") as folder:
        (folder / OLD / "run").mkdir(parents=True)
        (folder / OLD / "run" / "weights").write_text("old")
        (tmp_path / "run").mkdir()  # as a killed rename leaves it: empty
    assert (tmp_path / "run" / "weights").read_text() == "old"
    with scratch(tmp_path / "run") as folder:
        (folder / OLD / "run").mkdir(parents=True)
        (folder / OLD / "run" / "weights").write_text("older")
    assert (tmp_path / "run" / "weights").read_text() == "old"  # a new version is in place: the old one goes
    assert names(tmp_path) == ["run"]


def test_another_process_alive_and_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CODE, tmp_path / "out"], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        name = other.stdout.readline().strip()
        remove_leftovers(tmp_path)
        assert names(tmp_path) == [name]
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert names(tmp_path) == [name]
    remove_leftovers(tmp_path)
    assert names(tmp_path) == []


def test_folders_that_cannot_be_listed_are_left_alone(tmp_path: Path) -> None:
    remove_leftovers(tmp_path / "missing")
    (tmp_path / "file").write_text("content")
    remove_leftovers(tmp_path / "file")
    assert names(tmp_path) == ["file"]
