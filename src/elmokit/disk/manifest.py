"""Manifests: the files that elmokit writes into a kind of folder, so that it removes these and no others.

A name alone proves nothing: other programs write `config.json` and `checkpoints/step-100.safetensors`, too. So a
pattern may come with a check of the content.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from elmokit.disk.scratch import is_scratch
from elmokit.errors import OutputError

_NAMED = 3  # maximum number of foreign files named in an error


@dataclass(frozen=True)
class Checked:
    """Path pattern of files that are recognized by their content."""

    pattern: str
    check: Callable[[Path], bool]  # whether elmokit wrote a file; must not raise

    def __str__(self) -> str:
        return self.pattern


Pattern = str | Checked


@dataclass(frozen=True)
class Manifest:
    """Path patterns of a folder, separated by "/", with `fnmatch` wildcards in each component.

    kind: name of the folder in errors. marks: files of which every such folder has at least one. parts: other files.
    A file that fails the check of its pattern is foreign, whatever its name.
    """

    kind: str
    marks: tuple[Pattern, ...]
    parts: tuple[Pattern, ...]

    def inside(self, name: str) -> tuple[Pattern, ...]:
        """Patterns of this folder as a subfolder of another one."""
        return (*self.marks_inside(name), *(_inside(name, pattern) for pattern in self.parts))

    def marks_inside(self, name: str) -> tuple[Pattern, ...]:
        """Patterns of the marks of this folder as a subfolder of another one."""
        return tuple(_inside(name, pattern) for pattern in self.marks)

    def names(self, folder: Path) -> list[str]:
        """The first few files and foreign folders of a folder, whoever wrote them."""
        return [str(path) for path, _ in itertools.islice(self._walk(folder), _NAMED)]

    def is_empty(self, folder: Path) -> bool:
        """Whether a folder is missing or empty, not counting locks and temporary files of elmokit."""
        return next(self._walk(folder), None) is None

    def is_marked(self, folder: Path) -> bool:
        """Whether a folder is of this kind; it may contain other files too."""
        return any(_first_match(folder, path, self.marks) is not None for path, _ in self._walk(folder))

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
            marks = " or ".join(map(str, self.marks))
            raise OutputError(f"{folder}: expected {self.kind} to overwrite, found no {marks}; nothing was removed")

    def remove(self, folder: Path) -> None:
        """Remove the files of elmokit, in the reverse order of their patterns.

        Marks are the last ones, so an interrupted removal leaves a folder of this kind; and a part whose check looks at
        an earlier part is removed before it.
        """
        paths = [path for path, is_ours in self._walk(folder) if is_ours]
        for path in sorted(paths, key=lambda path: -(_first_match(folder, path, self._patterns) or 0)):
            (folder / path).unlink(missing_ok=True)
        for inner, _, _ in os.walk(folder, topdown=False):
            if Path(inner) != folder and not os.listdir(inner) and not os.path.islink(inner):
                os.rmdir(inner)

    @property
    def _patterns(self) -> tuple[Pattern, ...]:
        return (*self.marks, *self.parts)

    def _walk(self, folder: Path) -> Iterator[tuple[PurePosixPath, bool]]:
        """Yield (path, is ours) for all files and for foreign folders; neither these nor links are entered."""
        folders = {str(PurePosixPath(str(pattern)).parent) for pattern in self._patterns}
        folders |= {str(above) for name in folders for above in PurePosixPath(name).parents}
        for inner, subfolders, names in os.walk(folder):
            here = PurePosixPath(Path(inner).relative_to(folder).as_posix())
            for name in sorted(subfolders):
                path = Path(inner) / name
                if path.is_symlink() or not any(_matches(here / name, pattern) for pattern in folders):
                    subfolders.remove(name)
                    if not is_scratch(path):
                        yield here / name, path.is_symlink() and self._is_ours(folder, here / name)
            for name in sorted(names):
                if here / name != PurePosixPath("lock"):
                    yield here / name, self._is_ours(folder, here / name)

    def _is_ours(self, folder: Path, path: PurePosixPath) -> bool:
        return _first_match(folder, path, self._patterns) is not None


def _inside(folder: str, pattern: Pattern) -> Pattern:
    name = f"{folder}/{pattern}"
    return Checked(name, pattern.check) if isinstance(pattern, Checked) else name


def _first_match(folder: Path, path: PurePosixPath, patterns: tuple[Pattern, ...]) -> int | None:
    """Number of the first pattern that a file in a folder matches, content included."""
    for number, pattern in enumerate(patterns):
        if _matches(path, str(pattern)) and (isinstance(pattern, str) or pattern.check(folder / path)):
            return number
    return None


def _matches(path: PurePosixPath, pattern: str) -> bool:
    wanted = PurePosixPath(pattern).parts
    return len(path.parts) == len(wanted) and all(map(fnmatchcase, path.parts, wanted))
