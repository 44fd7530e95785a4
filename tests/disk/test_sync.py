"""System calls: locks that end with their descriptor, file systems without locks, fsync."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from elmokit.disk.sync import sync, try_lock, wait_for_lock

fcntl = pytest.importorskip("fcntl", reason="needs a POSIX system")


@pytest.fixture
def descriptors(tmp_path: Path) -> tuple[int, int]:
    """The same file, opened twice."""
    (tmp_path / "file").touch()
    return os.open(tmp_path / "file", os.O_RDWR), os.open(tmp_path / "file", os.O_RDWR)


def test_one_holder_at_a_time(descriptors: tuple[int, int]) -> None:
    first, second = descriptors
    assert try_lock(first) and not try_lock(second)
    assert try_lock(first)  # of the same descriptor, again
    os.close(first)
    assert try_lock(second)
    os.close(second)


def test_waiting_ends_when_the_holder_closes(descriptors: tuple[int, int]) -> None:
    first, second = descriptors
    assert try_lock(first)
    had_it: list[float] = []
    waiting = threading.Thread(target=lambda: (wait_for_lock(second), had_it.append(time.monotonic())))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    released = time.monotonic()
    os.close(first)
    waiting.join(20)
    assert had_it and had_it[0] >= released
    os.close(second)


def test_folders_can_be_locked(tmp_path: Path) -> None:
    first, second = os.open(tmp_path, os.O_RDONLY), os.open(tmp_path, os.O_RDONLY)
    assert try_lock(first) and not try_lock(second)
    os.close(first)
    os.close(second)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_file_systems_without_locks(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert try_lock(0)
    wait_for_lock(0)


def test_other_errors_are_raised(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    for lock in (try_lock, wait_for_lock):
        with pytest.raises(OSError, match="Bad file descriptor"):
            lock(descriptor)


def test_files_and_folders_are_flushed_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    (tmp_path / "file").write_text("content")
    sync(tmp_path / "file")
    sync(tmp_path)
    assert len(flushed) == 2
    for descriptor in flushed:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "missing")
