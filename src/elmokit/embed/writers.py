"""Files of vectors: HDF5 as `allennlp elmo` wrote it, Parquet, and npz. All are written in bounded memory.

Sentence i of the input is number i in every file, blank lines included: they have no tokens, so their array has n = 0
(or is one row of zeros where each sentence has one vector).
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, Protocol, get_args

import numpy as np

from elmokit.disk.hdf5_file import Hdf5Disk, uninterrupted
from elmokit.embed.line_checks import sentence_key
from elmokit.embed.parquet import ParquetWriter, Rows, load_pyarrow
from elmokit.embed.record import Record, RecordLayout
from elmokit.errors import ConfigError

Format = Literal["hdf5", "parquet", "npz"]

SUFFIXES: dict[str, Format] = {".h5": "hdf5", ".hdf5": "hdf5", ".parquet": "parquet", ".npz": "npz"}
_MAX32 = 0xFFFFFFFF  # zip64 marker: the 64-bit value is in the extra field
_FIRST_OF_1980 = 33  # 1980-01-01 as a zip date
_MAGIC: dict[Format, tuple[bytes, ...]] = {"hdf5": (b"\x89HDF",), "parquet": (b"PAR1",), "npz": (b"PK\3\4", b"PK\5\6")}


class Writer(Protocol):
    """Interface of all output formats: records are written in order."""

    def write(self, record: Record) -> None:
        """Add the next sentence."""

    def close(self) -> None:
        """Complete the file."""


class Hdf5Writer:
    """Datasets "0", "1", ... and, unless sentences are omitted, `sentence_to_index`: JSON {sentence: "index"}.

    That JSON is one string by its nature, so the sentences (not their vectors) are held in memory until the end. Of
    equal sentences the last one counts. Every dataset has attributes, as JSON: `tokens`, `offsets` of the tokens in the
    sentence, and `line`, the number of its line where lines were cut into sentences. Readers of the old layout never
    see them. With `sentence_keys` the sentences themselves name the datasets.
    """

    def __init__(self, path: Path, *, keep_sentences: bool = True, sentence_keys: bool = False) -> None:
        import h5py

        self._string = h5py.string_dtype()
        self._string_type = h5py.h5t.py_create(self._string, logical=True)
        self._scalar = h5py.h5s.create(h5py.h5s.SCALAR)
        self._new_attribute = h5py.h5a.create
        self._disk = Hdf5Disk(path)
        self._file = h5py.File(self._disk, "w")
        self._count = 0
        self._sentence_keys = sentence_keys
        self._index: dict[str, str] | None = {} if keep_sentences and not sentence_keys else None

    def write(self, record: Record) -> None:
        """Add dataset "i", or one named by its sentence."""
        name = sentence_key(record.text) if self._sentence_keys else str(self._count)
        with uninterrupted():
            dataset = self._file.create_dataset(name, data=record.vectors)
            for key, value in record.facts().items():
                self._add_attribute(dataset, key, _json(value))
        if self._index is not None:
            self._index[record.text.strip()] = name
        self._count += 1
        self._disk.check()

    def _add_attribute(self, dataset: Any, name: str, value: str) -> None:
        """Add a string attribute of any length (an array is limited to 64 KB); faster than `attrs`."""
        attribute = self._new_attribute(dataset.id, name.encode(), self._string_type, self._scalar)
        attribute.write(np.array(value, dtype=self._string))

    def close(self) -> None:
        """Write the sentences and close."""
        with uninterrupted():
            if self._index is not None:
                self._file.create_dataset("sentence_to_index", (1,), self._string)[0] = json.dumps(self._index)
            self._file.close()
            self._disk.close()
        self._disk.check()


class NpzWriter:
    """Arrays "0", "1", ..., uncompressed: `numpy.load` reads it, one array at a time.

    "0.json", "1.json", ... hold text and tokens, and offsets and line where they are known: numpy returns such members
    as bytes, for `json.loads`. Python's own `zipfile` keeps the directory of the zip in memory, some hundred bytes for
    each sentence. Here it is written to a temporary file, which is appended to the zip at the end.
    """

    def __init__(self, path: Path, *, keep_sentences: bool = True) -> None:
        self._file = path.open("wb")
        self._directory = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115  (closed with the file)
        self._keep_sentences = keep_sentences
        self._members = self._count = 0

    def write(self, record: Record) -> None:
        """Add array "i" and the metadata of its sentence."""
        content = io.BytesIO()
        np.lib.format.write_array(content, record.vectors, allow_pickle=False)
        self._add(f"{self._count}.npy", content.getvalue())
        if self._keep_sentences:
            self._add(f"{self._count}.json", _json({"text": record.text, **record.facts()}).encode())
        self._count += 1

    def _add(self, member: str, data: bytes) -> None:
        name, at = member.encode(), self._file.tell()
        # zip64 throughout, and a fixed date, so that equal vectors give equal files
        common = struct.pack("<HHHHHI", 45, 0x800, 0, 0, _FIRST_OF_1980, zlib.crc32(data))
        sizes = struct.pack("<QQ", len(data), len(data))
        local = struct.pack("<IIHH", _MAX32, _MAX32, len(name), 4 + len(sizes))
        self._file.write(b"PK\3\4" + common + local + name + struct.pack("<HH", 1, len(sizes)) + sizes)
        self._file.write(data)
        sizes += struct.pack("<Q", at)
        rest = struct.pack("<IIHHHHHII", _MAX32, _MAX32, len(name), 4 + len(sizes), 0, 0, 0, 0o600 << 16, _MAX32)
        extra = struct.pack("<HH", 1, len(sizes)) + sizes
        self._directory.write(b"PK\1\2" + struct.pack("<H", 45 | 3 << 8) + common + rest + name + extra)
        self._members += 1

    def close(self) -> None:
        """Write the directory of the zip."""
        with self._file, self._directory:
            start, size = self._file.tell(), self._directory.tell()
            self._directory.seek(0)
            shutil.copyfileobj(self._directory, self._file)
            if not self._members:  # an empty zip starts with its end record
                self._file.write(b"PK\5\6" + bytes(18))
                return
            end = struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, self._members, self._members, size, start)
            self._file.write(b"PK\6\6" + end + b"PK\6\7" + struct.pack("<IQI", 0, start + size, 1))
            self._file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, _MAX32, _MAX32, 0))


class PooledNpzWriter:
    """One matrix "vectors" (n, 2D), and "texts.json", the n texts of its rows.

    Where lines were cut into sentences, "lines.json" has the number of each text's line.
    """

    def __init__(self, path: Path, layout: RecordLayout, *, count: int, keep_sentences: bool = True) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._texts = _JsonList(path.parent) if keep_sentences else None
        self._lines = _JsonList(path.parent) if keep_sentences else None
        self._matrix = _member(self._zip, "vectors.npy")
        header = {"descr": np.dtype(layout.dtype).str, "fortran_order": False, "shape": (count, layout.dim)}
        np.lib.format.write_array_header_1_0(self._matrix, header)

    def write(self, record: Record) -> None:
        """Add a row."""
        self._matrix.write(np.ascontiguousarray(record.vectors).tobytes())
        if self._texts is not None:
            self._texts.add(record.text)
        if self._lines is not None and record.line is not None:
            self._lines.add(record.line)

    def close(self) -> None:
        """Write the texts and the directory of the zip."""
        self._matrix.close()
        if self._texts is not None:
            self._texts.move_to(self._zip, "texts.json")
        if self._lines is not None:
            if self._lines.count:
                self._lines.move_to(self._zip, "lines.json")
            self._lines.close()
        self._zip.close()


class _JsonList:
    """JSON list buffered in a temporary file until the matrix is complete."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed with the output)
        self.count = 0

    def add(self, value: object) -> None:
        """Append a value."""
        self._file.write((b", " if self.count else b"[") + _json(value).encode())
        self.count += 1

    def move_to(self, archive: zipfile.ZipFile, name: str) -> None:
        """Write the list as a member of the zip, and delete it."""
        with self._file, _member(archive, name) as member:
            self._file.write(b"]" if self.count else b"[]")
            self._file.seek(0)
            shutil.copyfileobj(self._file, member)

    def close(self) -> None:
        """Delete the list."""
        self._file.close()


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """New member of a zip, with a fixed date so that equal vectors give equal files; zip64, as its size is unknown."""
    return archive.open(zipfile.ZipInfo(name), "w", force_zip64=True)


def _json(value: object) -> str:
    return json.dumps(value)  # ASCII, so that lone surrogates survive the round trip


def format_of(path: Path, format: str | None = None) -> Format:
    """Given format, or the one of the suffix, after a check that its library is installed."""
    if format is not None and format not in get_args(Format):
        raise ConfigError(f"--format: expected {', '.join(get_args(Format))}, found {format!r}")
    chosen = format or SUFFIXES.get(path.suffix.lower())
    if chosen is None:
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}; or use --format")
    if chosen == "parquet":
        load_pyarrow()
    return chosen  # type: ignore[return-value]


def has_format(path: Path, format: Format) -> bool:
    """Whether a file starts with the signature of this format."""
    with path.open("rb") as file:
        return file.read(4) in _MAGIC[format]


@contextmanager
def open_writer(
    path: Path,
    format: Format,
    layout: RecordLayout,
    *,
    rows: Rows = "tokens",
    keep_sentences: bool = True,
    sentence_keys: bool = False,
    count: int | None = None,
) -> Iterator[Writer]:
    """Context manager of a writer; after an error the file is closed as far as possible, and is invalid.

    count: how many records will come, which a pooled npz must know; without it, it has one array for each.
    """
    writer: Writer
    if format == "hdf5":
        writer = Hdf5Writer(path, keep_sentences=keep_sentences, sentence_keys=sentence_keys)
    elif format == "parquet":
        writer = ParquetWriter(path, layout, rows=rows)
    elif layout.pooled and count is not None:
        writer = PooledNpzWriter(path, layout, count=count, keep_sentences=keep_sentences)
    else:
        writer = NpzWriter(path, keep_sentences=keep_sentences)
    try:
        yield writer
    except BaseException:
        with suppress(Exception):  # the first error is the one to report
            writer.close()
        raise
    writer.close()
