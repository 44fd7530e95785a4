"""A folder that one process at a time writes into."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from elmokit.errors import OutputError

LOCK = "lock"  # the file whose holder may write
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)  # of a file system that has none


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be; at the end an empty folder goes with it."""
    try:
        file = lock(folder, folder)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # other files, or a system that keeps what is open
            (folder / LOCK).unlink()
            folder.rmdir()
        file.close()


def lock(folder: Path, target: Path) -> IO[bytes]:
    """Take the lock of a folder, which is made if need be; `target` is what errors call it.

    The system opens it when the file is closed or the process ends, however it ends. Whoever removes the file does so
    while holding it.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / LOCK
        try:
            file = open(path, "ab")  # noqa: SIM115 (it stays open as long as the lock is held)
        except FileNotFoundError:  # whoever held it has just ended and removed the folder
            continue
        try:
            _lock_file(file)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        except BlockingIOError:
            file.close()
            raise OutputError(f"{target}: another process is writing it; wait for it, or choose another name") from None
        except FileNotFoundError:  # removed between opening and locking
            pass
        file.close()


def _lock_file(file: IO[bytes]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two processes are not told apart there
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
