"""Resumable work folder: completed chunks on disk, from which the output is assembled.

`OUT.part/` holds `run.json` (the settings), a lock that is released when its process ends, and chunks `00000000.chunk`,
... Each chunk is written under another name, synced to disk and renamed. When all are complete, the output is assembled
from them inside the folder and renamed to its final path: it is never half-written there, and an older output is kept
until then. `done` is created before that rename and is the last file removed, so that a run interrupted in between is
known to be complete. While the output is assembled, the disk holds the results twice.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from elmokit.disk.json_file import from_json, read_json, write_json
from elmokit.disk.lock import LOCK, lock
from elmokit.disk.manifest import Manifest
from elmokit.disk.outputs import check_output
from elmokit.disk.scratch import remove_leftovers
from elmokit.disk.sync import sync
from elmokit.disk.whole import put_in_place
from elmokit.embed.chunk import Chunk, ChunkState, read_chunk, write_chunk
from elmokit.embed.record import Record
from elmokit.errors import FormatError, OutputError

_NUMBER = 8 * "[0-9]"
_CLEARED = ("result", f"{_NUMBER}.chunk", f"{_NUMBER}.tmp")
SPOOL_FOLDER = Manifest("unfinished work of elmo embed", marks=("run.json", "done"), parts=_CLEARED)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Spool:
    """The folder of one output, locked for this process; use it in a `with` statement.

    complete: nothing is left to do: the output existed, or an earlier run was interrupted during its cleanup only.
    """

    def __init__(
        self, target: Path, settings: Mapping[str, Any], *, resume: bool, overwrite: bool,
        is_output: Callable[[Path], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        """Open or create the folder. If existing files are in the way, an OutputError names the flag to use.

        is_output: whether a file has the format of the output; such a file is complete, because outputs appear only
        when they are complete.
        """
        self.target, self.overwrite, self._is_output = target, overwrite, is_output
        self.folder = target.with_name(target.name + ".part")
        self.complete = False
        check_output(target, overwrite=True)  # whether there is one is looked at later: a run may just have made it
        if os.path.lexists(self.folder):
            if self.folder.is_symlink() or not self.folder.is_dir():
                raise OutputError(f"{self.folder}: expected no file or link of this name, which is for unfinished work")
            if found := _foreign(self.folder):
                raise OutputError(f"{self.folder}: expected unfinished work of elmo embed, found {found}; move it away")
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

    def write(self, number: int, records: Iterable[Record], state: Callable[[], ChunkState | None]) -> None:
        """Store the records of a chunk as they arrive, then the state; on return the chunk is synced to disk."""
        path = self._path(number)
        with self._one_line():
            fresh = path.with_suffix(".tmp")
            try:
                with open(fresh, "wb") as file:
                    write_chunk(file, records, state)
                put_in_place(fresh, path)
            finally:
                fresh.unlink(missing_ok=True)  # half a chunk is worth nothing; its room may be

    def finish(self, n_chunks: int, assemble: Callable[[Path, Iterator[Record]], None]) -> None:
        """Let `assemble` write the output from the records of all chunks, put it in its place, remove the folder."""
        if self.target.exists() and not self.overwrite:
            raise OutputError(
                f"{self.target}: was created by another process in the meantime; use --resume --overwrite to replace it"
            )
        result = self.folder / "result"
        try:
            with self._one_line():
                assemble(result, self._records(n_chunks))
                sync(result)
        except BaseException:
            result.unlink(missing_ok=True)
            raise
        with self._one_line():
            (self.folder / "done").touch()  # from here on the result is never thrown away
            sync(self.folder)
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
                f"{self.target}: an unfinished run left {self.folder}; use --resume, or --overwrite to start over"
            )
        if self.target.exists() and not self.overwrite:
            if resume and not unfinished and self._is_output(self.target):
                self.complete = True
                return
            raise OutputError(f"{self.target}: exists already; use --overwrite to replace it")
        if unfinished and resume:
            _compare(self.target, _read_settings(run), settings)
            return
        self._clear()
        write_json(run, settings, advice=f"; finished work is kept in {self.folder}: make room, then use --resume")

    def _records(self, n_chunks: int) -> Iterator[Record]:
        for number in range(n_chunks):
            chunk = read_chunk(self._path(number), check=False)  # made or checked by this process
            if chunk is None:
                raise OutputError(f"{self._path(number)}: was damaged during the run; use --resume")
            yield from chunk.records()

    def _hand_over(self) -> None:
        """The last steps, all of which can be repeated: rename the output, then clean up, `done` last."""
        result = self.folder / "result"
        if result.exists():
            put_in_place(result, self.target, replace=self.overwrite)
        else:  # renamed by a run that was killed
            sync(self.target.parent)
        self._clear()
        (self.folder / "done").unlink()
        self._remove_folder()
        self._lock.close()

    def _has_chunks(self) -> bool:
        return next(self.folder.glob("*.chunk"), None) is not None

    def _clear(self) -> None:
        """Remove our files, except `done` and the lock; foreign files are kept."""
        remove_leftovers(self.folder)
        for pattern in (*_CLEARED, "run.json"):
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
        """Convert an OSError to an OutputError of one line that says what to do."""
        try:
            yield
        except OutputError:
            raise
        except FileExistsError:
            advice = "use --resume --overwrite to replace it"
            raise OutputError(f"{self.target}: was created by another process in the meantime; {advice}") from None
        except OSError as error:
            reason = error.strerror or str(error).splitlines()[0]
            if error.errno in _FULL:
                reason += f"; finished work is kept in {self.folder}: make room, then use --resume"
            raise OutputError(f"{self.target}: cannot be written: {reason}") from None


def _foreign(folder: Path) -> str:
    """Evidence that a folder is not ours; "" if there is none. Names are not enough: any program may write run.json."""
    if SPOOL_FOLDER.is_empty(folder):
        return ""
    if others := SPOOL_FOLDER.foreign(folder):
        return ", ".join(others)
    if not SPOOL_FOLDER.is_marked(folder):
        return "no run.json or done"
    run, done = folder / "run.json", folder / "done"
    if os.path.lexists(done) and (done.is_symlink() or done.stat().st_size):
        return "a file `done` with content"
    if os.path.lexists(run) and next(folder.glob(f"{_NUMBER}.chunk"), None) is None:  # with chunks, it may be damaged
        try:
            settings = from_json(dict[str, Any], read_json(run), str(run))
        except FormatError:
            return "another run.json"
        if settings and "spool version" not in settings:  # which `embed_files` has among its settings
            return "another run.json"
    return ""


def _read_settings(run: Path) -> dict[str, Any]:
    try:
        return from_json(dict[str, Any], read_json(run), str(run))
    except FormatError:
        raise OutputError(
            f"{run}: expected the settings of the unfinished run, found a damaged file; use --overwrite"
        ) from None


def _compare(target: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differences = [
        f"{name} {before.get(name)} (now {now.get(name)})"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    if differences:
        raise OutputError(
            f"{target}: the unfinished run had {', '.join(differences)}; use the same, or --overwrite to start over"
        )
