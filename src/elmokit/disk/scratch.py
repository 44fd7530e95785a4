"""Temporary folders beside the output; leftovers of killed processes are removed by the next process.

The folder itself is locked through a file descriptor, which closes with its process: if a scratch folder can be locked,
its owner is dead. So folders of live processes are never removed, and no lock files are needed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmokit.disk.rename import rename_new
from elmokit.disk.sync import HAS_FOLDER_LOCKS, try_lock

OLD = "old"  # subfolder with the previous version, until the new one is in place
_NAME = re.compile(r"\..*\.elmokit-[0-9a-f]{8}", re.DOTALL)
_LONGEST = 100  # characters of the target name used in the folder name


@contextmanager
def scratch(target: Path) -> Iterator[Path]:
    """New locked folder beside `target`, removed at the end; leftovers of dead processes are removed first."""
    remove_leftovers(target.parent)
    folder, descriptor = _make(target)
    try:
        yield folder
    finally:
        _restore(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def is_scratch(path: Path) -> bool:
    """Whether the path is a folder with the name of a scratch folder."""
    return _NAME.fullmatch(path.name) is not None and path.is_dir() and not path.is_symlink()


def remove_leftovers(folder: Path) -> None:
    """Remove scratch folders of dead processes from a folder."""
    if not HAS_FOLDER_LOCKS:
        return
    with suppress(OSError):
        names = os.listdir(folder)
        for path in (folder / name for name in names if name.startswith(".")):
            if is_scratch(path):
                _remove_if_dead(path)


def _make(target: Path) -> tuple[Path, int | None]:
    while True:
        folder = target.with_name(f".{target.name[:_LONGEST]}.elmokit-{secrets.token_hex(4)}")
        folder.mkdir()
        if not HAS_FOLDER_LOCKS:
            return folder, None
        descriptor = -1
        try:
            descriptor = os.open(folder, os.O_RDONLY)
            if try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                return folder, descriptor
        except FileNotFoundError:
            pass  # another process removed it before it was locked
        except BaseException:
            with suppress(OSError):
                folder.rmdir()
            raise
        if descriptor >= 0:
            os.close(descriptor)


def _remove_if_dead(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if try_lock(descriptor):
                _restore(folder)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def _restore(folder: Path) -> None:
    """Move the previous version back, unless its name is taken."""
    with suppress(OSError):
        for old in (folder / OLD).iterdir():
            target = folder.parent / old.name
            with suppress(OSError):
                target.rmdir()  # a process killed while renaming may leave an empty folder
            with suppress(FileExistsError):
                rename_new(old, target)
