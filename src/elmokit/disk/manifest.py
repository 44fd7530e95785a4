"""Manifests: the files that elmokit writes into a kind of folder, so that it removes these and no others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from elmokit.disk.scratch import is_scratch
from elmokit.errors import OutputError

_NAMED = 3  # maximum number of foreign files named in an error


@dataclass(frozen=True)
class Manifest:
    """Path patterns of a folder, separated by "/", with `fnmatch` wildcards in each component.

    kind: name of the folder in errors. marks: files of which every such folder has at least one. parts: other files.
    """

    kind: str
    marks: tuple[str, ...]
    parts: tuple[str, ...]

    def inside(self, name: str) -> tuple[str, ...]:
        """Patterns of this folder as a subfolder of another one."""
        return tuple(f"{name}/{pattern}" for pattern in (*self.marks, *self.parts))

    def is_empty(self, folder: Path) -> bool:
        """Whether a folder is missing or empty, not counting locks and temporary files of elmokit."""
        return next(self._walk(folder), None) is None

    def is_marked(self, folder: Path) -> bool:
        """Whether a folder is of this kind; it may contain other files too."""
        return any(_matches(path, self.marks) for path, _ in self._walk(folder))

    def foreign(self, folder: Path) -> list[str]:
        """The first few files and folders that were not written by elmokit."""
        found = []
        for path, is_ours in self._walk(folder):
            if not is_ours:
                found.append(str(path))
                if len(found) >= _NAMED:
                    break
        return found

    def require(self, folder: Path) -> None:
        """Raise an OutputError unless a folder is of this kind, or empty, and contains no foreign files."""
        if folder.is_symlink() or not folder.is_dir():
            raise OutputError(f"{folder}: expected {self.kind} to overwrite, found a file; it was not changed")
        if others := self.foreign(folder):
            raise OutputError(
                f"{folder}: expected {self.kind} to overwrite, found also {', '.join(others)}; nothing was removed: "
                "move them elsewhere, or choose another name"
            )
        if not self.is_empty(folder) and not self.is_marked(folder):
            raise OutputError(
                f"{folder}: expected {self.kind} to overwrite, found no {' or '.join(self.marks)}; nothing was removed"
            )

    def remove(self, folder: Path) -> None:
        """Remove the files of elmokit, marks last, so that an interrupted removal leaves a folder of this kind."""
        paths = [path for path, is_ours in self._walk(folder) if is_ours]
        for path in sorted(paths, key=lambda path: _matches(path, self.marks)):
            (folder / path).unlink(missing_ok=True)
        for inner, _, _ in os.walk(folder, topdown=False):
            if Path(inner) != folder and not os.listdir(inner) and not os.path.islink(inner):
                os.rmdir(inner)

    def _walk(self, folder: Path) -> Iterator[tuple[PurePosixPath, bool]]:
        """Yield (path, is ours) for all files and for foreign folders; neither these nor links are entered."""
        folders = {str(PurePosixPath(pattern).parent) for pattern in (*self.marks, *self.parts)}
        folders |= {str(above) for name in folders for above in PurePosixPath(name).parents}
        for inner, subfolders, names in os.walk(folder):
            here = PurePosixPath(Path(inner).relative_to(folder).as_posix())
            for name in sorted(subfolders):
                path = Path(inner) / name
                if path.is_symlink() or not any(_matches(here / name, (pattern,)) for pattern in folders):
                    subfolders.remove(name)
                    if not is_scratch(path):
                        yield here / name, path.is_symlink() and _matches(here / name, (*self.marks, *self.parts))
            for name in sorted(names):
                if here / name != PurePosixPath("lock"):
                    yield here / name, _matches(here / name, (*self.marks, *self.parts))


def _matches(path: PurePosixPath, patterns: tuple[str, ...]) -> bool:
    return any(
        len(path.parts) == len(wanted := PurePosixPath(pattern).parts)
        and all(fnmatchcase(name, part) for name, part in zip(path.parts, wanted, strict=True))
        for pattern in patterns
    )
