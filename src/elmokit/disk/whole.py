"""Atomic creation of files and folders."""

from __future__ import annotations

import os
import secrets
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
        put_in_place(fresh, target, replace=replace)


@contextmanager
def new_shared_file(path: Path, *, advice: str = "") -> Iterator[Path]:
    """As `new_file`, in a folder that several machines write into; a file that exists is replaced.

    `new_file` removes scratch folders that it can lock, but over NFS a lock on a folder holds on one machine only: one
    machine would remove what another is writing. So this is a single hidden file, `.NAME.RANDOM`, which stays if the
    process is killed; whoever knows that all writers have ended removes it.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with _as_output_error(path, advice):
        try:
            yield fresh
            put_in_place(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)


def put_in_place(fresh: Path, target: Path, *, replace: bool = True) -> None:
    """Sync a complete file to disk and rename it; without `replace`, an existing target is a FileExistsError."""
    sync(fresh)
    if replace:
        os.replace(fresh, target)
    else:
        rename_new(fresh, target)
    sync(target.parent)


@contextmanager
def new_folder(
    path: str | os.PathLike[str], *, replaces: Manifest | None = None, overwrite: bool = False
) -> Iterator[Path]:
    """Temporary folder to write into; at the end it is renamed to `path`, or removed after an error.

    replaces: kind of existing folder that `overwrite` replaces; None where the caller never overwrites. The old folder
    is swapped with the complete new one, atomically if the system supports it; otherwise it is restored if the process
    is killed in between.
    """
    target = real_path(os.path.expanduser(path))
    remove_leftovers(target.parent)  # even if the checks below fail
    if os.path.lexists(target):
        if replaces is None:
            raise OutputError(f"{target}: exists already; choose another name, or remove it first")
        if not overwrite:
            raise OutputError(f"{target}: exists already; use --overwrite to replace it, or choose another name")
        replaces.require(target)
    with _as_output_error(target, ""):
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch(target) as temporary:
            fresh = temporary / "new"
            fresh.mkdir()
            yield fresh
            _sync_tree(fresh)
            if replaces is not None and overwrite and target.is_dir():
                _replace(fresh, target, temporary, replaces)
            else:
                rename_new(fresh, target)
            sync(target.parent)


def _sync_tree(folder: Path) -> None:
    """Sync all files and folders in a folder, and the folder itself: a rename must not reach the disk before them."""
    for inner, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(inner, name))
        sync(Path(inner))


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
        raise OutputError(
            f"{path}: was created by another process in the meantime, and is kept; choose another name"
        ) from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {first_line(error)}{advice}") from None
