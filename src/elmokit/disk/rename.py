"""Atomic rename without replacement, and exchange of two names. `os.rename` replaces files and empty folders."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

_NO_REPLACE, _EXCHANGE = 1, 2  # flags of renameat2 (Linux)
_AT_CWD = -100
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)  # by the kernel or the file system


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder; raise a FileExistsError, without any change, if the target exists."""
    if _rename(source, target, _NO_REPLACE) or os.name == "nt":
        if os.name == "nt":
            os.rename(source, target)  # never replaces on Windows
        return
    if source.is_dir():
        os.mkdir(target)  # fails if the target exists
        os.rename(source, target)  # replaces the empty folder; fails if it is no longer empty
    else:
        os.link(source, target, follow_symlinks=False)  # fails if the target exists
        os.unlink(source)


def exchange(first: Path, second: Path) -> bool:
    """Atomically swap two files or folders; returns False, without any change, if that is not supported."""
    return _rename(first, second, _EXCHANGE)


def _rename(source: Path, target: Path, flag: int) -> bool:
    call = _renameat2()
    if call is None:
        return False
    if call(_AT_CWD, os.fsencode(source), _AT_CWD, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(source), None, str(target))


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc 2.28 or later
