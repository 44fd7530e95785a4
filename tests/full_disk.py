"""A disk that is full, for tests of what happens then."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NEW_USER, _NEW_MOUNTS, _REMOUNT = 0x10000000, 0x00020000, 32


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process grows beyond the limit: writing fails as on a full disk."""
    resource = pytest.importorskip("resource", reason="needs a POSIX system")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def mount_small_disk(folder: Path, size: int) -> bool:
    """Mount a disk of so many bytes at a folder, for this process alone; False if the system does not allow it.

    It is gone with the process: use it in a fork.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS) != 0 and libc.unshare(_NEW_USER | _NEW_MOUNTS) != 0:
        return False
    libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None)  # recursively private: nobody else sees the disk
    return _mount(folder, size, 0)


def resize_small_disk(folder: Path, size: int) -> None:
    """Make the disk larger, with all that is on it."""
    assert _mount(folder, size, _REMOUNT), os.strerror(ctypes.get_errno())


def _mount(folder: Path, size: int, flags: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={size},mode=0777".encode()
    return bool(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(flags), options) == 0)
