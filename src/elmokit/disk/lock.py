"""File locks that are released when their process ends, however it ends.

Not `filelock.FileLock`: it leaves its lock file behind, and cannot lock a folder itself, which `scratch` needs. Its
`lock_descriptor` could replace `sync`, but needs version 3.30, and torch also accepts older ones.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from elmokit.disk.scratch import remove_leftovers
from elmokit.disk.sync import DELETES_OPEN_FILES, try_lock, wait_for_lock
from elmokit.errors import OutputError

LOCK = "lock"  # lock file; its holder may write into the folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is created if missing; at the end the lock file and an empty folder are removed.

    Temporary files of killed processes in the folder and its subfolders are removed.
    """
    try:
        file = lock(folder, folder)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    try:
        for inner in (folder, *(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())):
            remove_leftovers(inner)
        yield
    finally:
        if not DELETES_OPEN_FILES:
            file.close()  # if another process opens the lock file now, the system does not let us remove it
        with suppress(OSError):  # the folder is not empty, or another process has the lock
            (folder / LOCK).unlink()
            folder.rmdir()
        file.close()


def lock(folder: Path, target: Path) -> IO[bytes]:
    """Acquire the lock of a folder, which is created if missing; `target` is its name in errors.

    The system releases it when the file is closed or the process ends. The lock file is only removed by its holder.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / LOCK
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            file = os.fdopen(os.open(path, flags, 0o666), "rb+")
        except FileNotFoundError:  # the previous holder has just removed the folder
            continue
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):  # a link, a folder, a pipe
                raise OutputError(f"{path}: expected the lock file of elmokit, found something else") from None
            raise
        try:
            if not try_lock(file.fileno()):
                raise OutputError(f"{target}: another process is writing it; wait for it, or choose another name")
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        except FileNotFoundError:  # removed between opening and locking
            pass
        except BaseException:
            file.close()
            raise
        file.close()


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold a lock file, waiting for it if necessary. On file systems without locks this does nothing."""
    with path.open("ab") as file:
        wait_for_lock(file.fileno())
        yield
