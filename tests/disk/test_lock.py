"""One process at a time in a folder, and no lock that outlives its process."""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from elmokit.disk import lock as lock_module
from elmokit.disk import sync as sync_module
from elmokit.disk.lock import LOCK, locked, waiting_lock
from elmokit.errors import OutputError


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`disk.sync` as on Windows, on a msvcrt that locks with flock and reports errors as the one of Windows does."""
    fcntl = pytest.importorskip("fcntl", reason="on Windows the other tests run the msvcrt branch itself")

    def locking(descriptor: int, mode: int, n_bytes: int) -> None:
        assert (mode, n_bytes) == (2, 1)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    specification = importlib.util.spec_from_file_location("sync_on_windows", sync_module.__file__)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))  # type: ignore[misc]
        patch.setattr(os, "name", "nt")
        specification.loader.exec_module(module)
    yield module


def test_windows_locks(windows: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("wb") as ours, path.open("rb+") as theirs:
        assert windows.try_lock(ours.fileno()) and not windows.try_lock(theirs.fileno())
        acquired = threading.Event()

        def wait() -> None:
            windows.wait_for_lock(theirs.fileno())
            acquired.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not acquired.wait(0.3)
        ours.close()
        assert acquired.wait(10)
        waiting.join()
    assert not windows.HAS_FOLDER_LOCKS and not windows.DELETES_OPEN_FILES


def test_folders_on_windows(windows: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock file and an empty folder are removed, although Windows deletes no open file."""
    folder, unlink = tmp_path / "run", Path.unlink
    opened: list[int] = []

    def try_lock(descriptor: int) -> bool:
        opened.append(descriptor)
        return bool(windows.try_lock(descriptor))

    def unlink_closed(path: Path, missing_ok: bool = False) -> None:
        for descriptor in opened:
            try:
                if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                    raise PermissionError(errno.EACCES, "used by another process", str(path))
            except OSError as error:
                if error.errno != errno.EBADF:  # else it is closed
                    raise
        unlink(path, missing_ok)

    monkeypatch.setattr(lock_module, "try_lock", try_lock)
    monkeypatch.setattr(lock_module, "DELETES_OPEN_FILES", windows.DELETES_OPEN_FILES)
    monkeypatch.setattr(Path, "unlink", unlink_closed)
    with locked(folder):
        with pytest.raises(OutputError, match="another process is writing it"), locked(folder):
            pass
        assert (folder / LOCK).exists()
    assert not folder.exists()


def test_waiting_for_a_lock(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with waiting_lock(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    with waiting_lock(tmp_path / "lock"):
        thread.start()
        thread.join(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


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


def test_leftovers_in_subfolders_are_removed(tmp_path: Path) -> None:
    dead, other = tmp_path / "checkpoints" / ".step-4.elmokit-0a1b2c3d", tmp_path / "checkpoints" / ".other"
    for folder in (dead, other):
        folder.mkdir(parents=True)
    with locked(tmp_path):
        assert other.exists() and dead.exists() is not sync_module.HAS_FOLDER_LOCKS


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from elmokit.disk.lock import locked\n"
        "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "run")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline().strip() == b"locked"
        with pytest.raises(OutputError, match="another process"), locked(tmp_path / "run"):
            pass
        process.kill()  # SIGKILL, on Windows TerminateProcess
    assert (tmp_path / "run" / LOCK).exists()
    with locked(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="run: cannot be written"), locked(tmp_path / "file" / "run"):
        pass
