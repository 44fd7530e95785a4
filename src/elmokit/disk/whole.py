"""Atomic creation of files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmokit.disk.manifest import Manifest
from elmokit.disk.outputs import real_path
from elmokit.disk.rename import exchange, rename_new
from elmokit.disk.scratch import OLD, remove_leftovers, scratch
from elmokit.disk.sync import sync
from elmokit.errors import OutputError, first_line


@contextmanager
def new_file(path: Path, *, replace: bool = True, advice: str = "") -> Iterator[Path]:
    """Temporary path to write to; at the end the file is synced and renamed to `path`, or removed after an error.

    replace: whether to replace an existing file; otherwise it is an OutputError. advice: appended to errors.
    """
    target = real_path(path)
    with _as_output_error(path, advice), scratch(target) as temporary:
        fresh = temporary / target.name
        yield fresh
        sync(fresh)
        if replace:
            os.replace(fresh, target)
        else:
            rename_new(fresh, target)
        sync(target.parent)


@contextmanager
def new_folder(path: str | os.PathLike[str], *, replaces: Manifest | None = None) -> Iterator[Path]:
    """Temporary folder to write into; at the end it is renamed to `path`, or removed after an error.

    replaces: kind of existing folder that may be replaced; None for none. The old folder is swapped with the complete
    new one, atomically if the system supports it; otherwise it is restored if the process is killed in between.
    """
    target = real_path(os.path.expanduser(path))
    remove_leftovers(target.parent)  # even if the checks below fail
    if os.path.lexists(target):
        if replaces is None:
            raise OutputError(f"{target}: exists already; choose another name, or allow overwriting")
        replaces.require(target)
    with _as_output_error(target, ""):
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch(target) as temporary:
            fresh = temporary / "new"
            fresh.mkdir()
            yield fresh
            for file in fresh.iterdir():
                sync(file)
            if replaces is not None and target.is_dir():
                _replace(fresh, target, temporary, replaces)
            else:
                rename_new(fresh, target)
            sync(target.parent)


def _replace(fresh: Path, target: Path, temporary: Path, manifest: Manifest) -> None:
    manifest.require(target)  # foreign files may have appeared meanwhile
    if exchange(fresh, target):
        if others := manifest.foreign(fresh):  # or between the check and the swap
            exchange(fresh, target)
            raise OutputError(f"{target}: {', '.join(others)} has appeared in it meanwhile; nothing was replaced")
        return
    (temporary / OLD).mkdir()
    os.rename(target, temporary / OLD / target.name)
    rename_new(fresh, target)


@contextmanager
def _as_output_error(path: Path, advice: str) -> Iterator[None]:
    try:
        yield
    except OutputError:
        raise
    except FileExistsError:
        raise OutputError(f"{path}: has appeared meanwhile, and is kept; choose another name") from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {first_line(error)}{advice}") from None
