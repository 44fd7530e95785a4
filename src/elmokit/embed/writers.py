"""Files of vectors: HDF5 as `allennlp elmo` wrote it, Parquet, and npz. All are written in bounded memory.

Sentence i of the input is number i in every file, blank lines included: they have no tokens, so their array has n = 0
(or is one row of zeros where each sentence has one vector).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Protocol, get_args

import numpy as np

from elmokit.embed.parquet import ParquetWriter, Rows, load_pyarrow
from elmokit.embed.record import Layout, Record
from elmokit.errors import ConfigError
from elmokit.weights.hdf5_disk import Hdf5Disk, uninterrupted

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
        self._disk = Hdf5Disk(path)
        self._file = h5py.File(self._disk, "w")
        self._count = 0
        self._index: dict[str, str] | None = {} if keep_sentences else None

    def write(self, record: Record) -> None:
        """Add dataset "i"."""
        name = str(self._count)
        with uninterrupted():
            self._file.create_dataset(name, data=record.vectors)
        if self._index is not None:
            self._index[record.text.strip()] = name
        self._count += 1
        self._disk.check()

    def close(self) -> None:
        """Write the sentences and close."""
        with uninterrupted():
            if self._index is not None:
                self._file.create_dataset("sentence_to_index", (1,), self._string)[0] = json.dumps(self._index)
            self._file.close()
            self._disk.close()
        self._disk.check()


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
