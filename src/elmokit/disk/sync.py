"""Portable wrappers of system calls: locks on open files, and fsync."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)  # file system without locks

if os.name == "nt":
    import msvcrt

    HAS_FOLDER_LOCKS = False
    DELETES_OPEN_FILES = False

    def try_lock(descriptor: int) -> bool:
        """Lock an open file; False if another process holds the lock."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EDEADLK)
        return True

    def wait_for_lock(descriptor: int) -> None:
        """Lock an open file, waiting for other processes."""
        while not try_lock(descriptor):
            time.sleep(0.05)  # msvcrt has no wait without a limit

else:
    import fcntl

    HAS_FOLDER_LOCKS = True
    DELETES_OPEN_FILES = True

    def try_lock(descriptor: int) -> bool:
        """Lock an open file or folder; False if another process holds the lock. True on file systems without locks."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        return True

    def wait_for_lock(descriptor: int) -> None:
        """Lock an open file, waiting for other processes."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk (fsync)."""
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
