"""Crash-safe work: results wait in a folder beside the output, in chunks that are either whole or not there.

`OUT.part/` holds `run.json` (the settings), a lock that dies with its process, and chunks `00000000.chunk`, ... Each
chunk is written under another name, synced to the disk and renamed. When all are there, the output is assembled from
them inside the folder and renamed to its place: it never stands there half-written, and an older one stays until then.
`done` is put down before that rename and is the last file to go, so that a run cut off in between is known to be
complete. While the output is assembled the disk holds the results twice.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

from elmokit.embed.chunk import Chunk, State, read_chunk, write_chunk
from elmokit.embed.record import Record
from elmokit.errors import OutputError
from elmokit.weights.lock import LOCK, lock

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Spool:
    """The folder of one output, locked for this process; use it in a `with` statement.

    complete: nothing is left to do, because only the cleaning up of an earlier run had been cut off.
    """

    def __init__(self, target: Path, settings: Mapping[str, Any], *, resume: bool, overwrite: bool) -> None:
        """Take the folder over, or make it. What stands in the way is an OutputError that names the flag to use."""
        self.target, self.overwrite = target, overwrite
        self.folder = target.with_name(target.name + ".part")
        self.complete = False
        if target.exists() and not target.is_file():
            found = "a folder" if target.is_dir() else "a device, pipe or socket"
            raise OutputError(f"{target}: expected the name of a file, found {found}")
        if not target.parent.is_dir():
            raise OutputError(f"{target}: expected an existing folder, found no {target.parent}; create it")
        with self._one_line():
            self._lock = lock(self.folder, target)
        try:
            with self._one_line():
                self._begin(dict(settings), resume)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Unlock. A folder without a single chunk is not worth keeping."""
        if self._lock.closed:
            return
        with contextlib.suppress(OSError):
            if not self._has_chunks() and not (self.folder / "done").exists():
                self._clear()
                self._remove_folder()
        self._lock.close()

    def has(self, number: int) -> bool:
        """Whether there is a file for this chunk, good or not."""
        return self._path(number).exists()

    def chunk(self, number: int) -> Chunk | None:
        """A chunk of an earlier run, checked byte for byte; None if it is missing, cut short or damaged."""
        with self._one_line():
            return read_chunk(self._path(number), check=True)

    def write(self, number: int, records: Iterable[Record], state: Callable[[], State | None]) -> None:
        """Store the records of a chunk as they come, and the state after them; at return they are safe."""
        path = self._path(number)
        beside = path.with_suffix(".tmp")
        try:
            with self._one_line():
                with open(beside, "wb") as file:
                    write_chunk(file, records, state)
                    _sync(file)
                os.replace(beside, path)
                _sync_folder(self.folder)
        except BaseException:
            beside.unlink(missing_ok=True)  # half a chunk is worth nothing; its room may be
            raise

    def finish(self, n_chunks: int, assemble: Callable[[Path, Iterator[Record]], None]) -> None:
        """Let `assemble` write the output from the records of all chunks, put it in its place, remove the folder."""
        if self.target.exists() and not self.overwrite:
            raise OutputError(f"{self.target}: has appeared meanwhile; use --resume --overwrite to replace it")
        result = self.folder / "result"
        try:
            with self._one_line():
                assemble(result, self._records(n_chunks))
                with open(result, "rb+") as file:
                    _sync(file)
        except BaseException:
            result.unlink(missing_ok=True)
            raise
        with self._one_line():
            (self.folder / "done").touch()  # from here on the result is never thrown away
            _sync_folder(self.folder)
            self._hand_over()

    def _begin(self, settings: dict[str, Any], resume: bool) -> None:
        if (self.folder / "done").exists():
            self._hand_over()
            if resume and self.target.exists():
                self.complete = True
                return
            self._lock = lock(self.folder, self.target)
        run = self.folder / "run.json"
        unfinished = run.exists() and self._has_chunks()
        if unfinished and not resume and not self.overwrite:
            raise OutputError(
                f"{self.target}: an unfinished run left {self.folder}; use --resume, or --overwrite to start anew"
            )
        if self.target.exists() and not self.overwrite:
            raise OutputError(f"{self.target}: exists already; use --overwrite to replace it")
        if unfinished and resume:
            _compare(self.target, _read_settings(run), settings)
            return
        self._clear()
        beside = self.folder / "run.tmp"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(settings, file, indent=1)
            _sync(file)
        os.replace(beside, run)
        _sync_folder(self.folder)

    def _records(self, n_chunks: int) -> Iterator[Record]:
        for number in range(n_chunks):
            chunk = read_chunk(self._path(number), check=False)  # made or checked by this process
            if chunk is None:
                raise OutputError(f"{self._path(number)}: was damaged while the run went on; use --resume")
            yield from chunk.records()

    def _hand_over(self) -> None:
        """The last steps, each of which may be repeated: name the output, then clear away, `done` last."""
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.folder / "result", self.target)
        _sync_folder(self.target.parent)
        self._clear()
        (self.folder / "done").unlink()
        self._remove_folder()
        self._lock.close()

    def _has_chunks(self) -> bool:
        return next(self.folder.glob("*.chunk"), None) is not None

    def _clear(self) -> None:
        """Remove our files, but for `done` and the lock; never anybody else's."""
        for pattern in ("run.json", "result", "*.chunk", "*.tmp"):
            for path in self.folder.glob(pattern):
                path.unlink()

    def _remove_folder(self) -> None:
        with contextlib.suppress(OSError):  # files of others, or a system that keeps what is open
            (self.folder / LOCK).unlink()
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08}.chunk"

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        """Turn the system's complaints about files into one line that says what to do."""
        try:
            yield
        except OutputError:
            raise
        except OSError as error:
            reason = error.strerror or str(error).splitlines()[0]
            if error.errno in _FULL:
                reason += f"; finished work is kept in {self.folder}: make room, then use --resume"
            raise OutputError(f"{self.target}: cannot be written: {reason}") from None


def _read_settings(run: Path) -> dict[str, Any]:
    try:
        settings = json.loads(run.read_bytes())
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise OutputError(f"{run}: expected the settings of the unfinished run, found a damaged file; use --overwrite")
    return settings


def _compare(target: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differences = [
        f"{name} {before.get(name)} (now {now.get(name)})"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    if differences:
        raise OutputError(
            f"{target}: the unfinished run had {', '.join(differences)}; use the same, or --overwrite to start anew"
        )


def _sync(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make renames inside it last through a power cut, where the system can."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
