"""Files of vectors: HDF5 as `allennlp elmo` wrote it, Parquet, and npz. All are written in bounded memory.

Sentence i of the input is number i in every file, blank lines included: they have no tokens, so their array has n = 0
(or is one row of zeros where each sentence has one vector).
"""

from __future__ import annotations

import json
import signal
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np

from elmokit.embed.parquet import ParquetWriter, Rows, load_pyarrow
from elmokit.embed.record import Layout, Record
from elmokit.errors import ConfigError

Format = Literal["hdf5", "parquet", "npz"]

SUFFIXES: dict[str, Format] = {".h5": "hdf5", ".hdf5": "hdf5", ".parquet": "parquet", ".npz": "npz"}


class Writer(Protocol):
    """What every format offers: records go in one after the other."""

    def write(self, record: Record) -> None:
        """Add the next sentence."""

    def close(self) -> None:
        """Complete the file."""


class Hdf5Writer:
    """Datasets "0", "1", ... and, unless it is to forget them, `sentence_to_index`: JSON {sentence: "index"}.

    That JSON is one string by its nature, so the sentences (not their vectors) are held in memory until the end. Of
    equal sentences the last one counts.
    """

    def __init__(self, path: Path, *, keep_sentences: bool = True) -> None:
        import h5py

        self._string = h5py.string_dtype()
        self._disk = _Hdf5File(path)
        self._file = h5py.File(self._disk, "w")
        self._count = 0
        self._index: dict[str, str] | None = {} if keep_sentences else None

    def write(self, record: Record) -> None:
        """Add dataset "i"."""
        name = str(self._count)
        with _uninterrupted():
            self._file.create_dataset(name, data=record.vectors)
        if self._index is not None:
            self._index[record.text.strip()] = name
        self._count += 1
        self._disk.check()

    def close(self) -> None:
        """Write the sentences and close."""
        with _uninterrupted():
            if self._index is not None:
                self._file.create_dataset("sentence_to_index", (1,), self._string)[0] = json.dumps(self._index)
            self._file.close()
            self._disk.close()
        self._disk.check()


class _Hdf5File:
    """The file under an HDF5 file. The HDF5 library loses data without a word, or crashes, when a write fails.

    So it never learns of it: the fault is remembered, and what cannot be written is kept aside until the file is shut.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115
        self._fault: OSError | None = None
        self._aside: list[tuple[int, bytes]] = []  # place and bytes of what could not be written

    def check(self) -> None:
        """Raise the fault, if there was one."""
        if self._fault is not None:
            raise self._fault

    def write(self, data: memoryview) -> int:
        """Write all of it, or remember why not."""
        at, done = self._file.tell(), 0
        try:
            while self._fault is None and done < len(data):
                done += self._file.write(data[done:])
        except OSError as error:
            self._fault = error
        if done < len(data):
            self._aside.append((at + done, bytes(data[done:])))
            self._file.seek(at + len(data))
        return len(data)

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from the file, and from what was kept aside; beyond the end there are zeros."""
        at = self._file.tell()
        got = self._file.readinto(buffer) or 0
        buffer[got:] = bytes(len(buffer) - got)
        for place, data in self._aside:
            first, last = max(at, place), min(at + len(buffer), place + len(data))
            if first < last:
                buffer[first - at : last - at] = data[first - place : last - place]
        return len(buffer)

    def read(self, size: int) -> bytes:
        """As `readinto`; h5py wants to see both."""
        buffer = bytearray(size)
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def seek(self, place: int, whence: int = 0) -> int:
        """As a file."""
        return self._file.seek(place, whence)

    def tell(self) -> int:
        """As a file."""
        return self._file.tell()

    def truncate(self, size: int) -> int:
        """Set the length of the file, or remember why not."""
        try:
            return self._file.truncate(size)
        except OSError as error:
            self._fault = self._fault or error
            return size

    def flush(self) -> None:
        """Nothing waits: every write goes to the system at once."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals wait till the end: an exception in the midst of an HDF5 call would be a failed write to the library."""
    waiting: list[int] = []
    handlers: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # no other thread is ever interrupted
            for number in (signal.SIGINT, signal.SIGTERM):
                handlers[number] = signal.signal(number, lambda number, _: waiting.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for late in waiting:
            signal.raise_signal(late)


class NpzWriter:
    """Arrays "0", "1", ... and nothing else, uncompressed: `numpy.load` reads it, one array at a time."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._count = 0

    def write(self, record: Record) -> None:
        """Add array "i"."""
        # a fixed date, so that equal vectors give equal files; sizes are not known before, hence zip64
        with self._zip.open(zipfile.ZipInfo(f"{self._count}.npy"), "w", force_zip64=True) as member:
            np.lib.format.write_array(member, record.vectors, allow_pickle=False)
        self._count += 1

    def close(self) -> None:
        """Write the directory of the zip."""
        self._zip.close()


def format_of(path: Path, format: str | None = None) -> Format:
    """The format that was asked for, or that the suffix names; its library is there."""
    if format is not None and format not in get_args(Format):
        raise ConfigError(f"--format: expected {', '.join(get_args(Format))}, found {format!r}")
    chosen = format or SUFFIXES.get(path.suffix.lower())
    if chosen is None:
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}; or say --format")
    if chosen == "parquet":
        load_pyarrow()
    return chosen  # type: ignore[return-value]


@contextmanager
def open_writer(
    path: Path, format: Format, layout: Layout, *, rows: Rows = "tokens", keep_sentences: bool = True
) -> Iterator[Writer]:
    """A writer that is closed at the end; after a fault the file is closed as well as it can be, and worth nothing."""
    writer: Writer
    if format == "hdf5":
        writer = Hdf5Writer(path, keep_sentences=keep_sentences)
    elif format == "parquet":
        writer = ParquetWriter(path, layout, rows=rows)
    else:
        writer = NpzWriter(path)
    try:
        yield writer
    except BaseException:
        with suppress(Exception):  # the first fault is the one to tell
            writer.close()
        raise
    writer.close()
