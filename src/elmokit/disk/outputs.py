"""Output paths: a regular file that is new, unless it may be overwritten.

Symbolic links are followed: the target is written, and the link stays.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from elmokit.errors import OutputError

_STREAM = re.compile(r"/dev/(std(in|out|err)$|fd/)|/proc/")


def real_path(path: str | os.PathLike[str]) -> Path:
    """Resolve symbolic links; the target need not exist."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:  # ValueError: NUL character
        raise OutputError(f"{str(path)!r}: cannot be a file ({error})") from None


def check_output(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Check, before the work starts, that a file can be written to a path; returns the path. Nothing is opened."""
    if not os.fspath(path):
        raise OutputError("expected the name of a file to write, found '' (an empty name)")
    given, target = Path(path), real_path(path)
    if _STREAM.match(os.path.abspath(given)):  # even if it leads to a file: that file is not to be replaced
        raise OutputError(f"{given}: expected the name of a file, found a stream; vectors and results cannot be piped")
    try:
        if not target.parent.is_dir():
            raise OutputError(f"{given}: expected a file in a folder that exists, found no {given.parent}; create it")
        if target.is_dir():
            raise OutputError(f"{given}: expected the name of a file, found a folder")
        if os.path.lexists(target) and not target.is_file():
            raise OutputError(f"{given}: expected the name of a file, found a device, pipe or socket")
        if target.exists() and not overwrite:
            raise OutputError(f"{given}: exists already; use --overwrite to replace it, or choose another name")
    except OutputError:
        raise
    except (OSError, ValueError) as error:  # name too long, or no permission for the folder
        raise OutputError(f"{given}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    return given
