"""Chunk files: the results of consecutive sentences, with a checksum.

Layout: the vectors of all sentences, the carried state, a JSON footer with everything else, and the tail (length of the
footer, CRC-32 of everything before the tail, magic number).
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmokit.disk.json_file import from_json, parse_json
from elmokit.embed.record import Record
from elmokit.errors import FormatError

ChunkState = list[NDArray[np.floating]]

_TAIL = struct.Struct("<QI4s")
_MAGIC = b"ELM1"
_BLOCK = 2**20  # bytes at a time when a file is checked


Dtype = Literal["float32", "float16"]


@dataclass(frozen=True)
class Footer:
    """Texts and tokens, and the shapes and types of the arrays."""

    texts: list[str]  # of each sentence
    tokens: list[list[str]]
    offsets: list[list[tuple[int, int]] | None]
    shapes: list[list[int]]  # of each sentence's vectors
    lines: list[int | None]  # line number of each sentence, if lines were split into sentences
    dtype: Dtype
    state_shapes: list[list[int]] | None  # None where no state is carried
    state_dtype: Dtype


@dataclass(frozen=True)
class Chunk(Footer):
    """A chunk on the disk."""

    path: Path

    def fits(self, size: int) -> bool:
        """Whether all lists have one item per sentence, and arrays of these shapes take `size` bytes."""
        counts = {len(self.texts), len(self.tokens), len(self.offsets), len(self.shapes), len(self.lines)}
        shapes = [*self.shapes, *(self.state_shapes or ())]
        if len(counts) != 1 or any(n < 0 for shape in shapes for n in shape):
            return False
        numbers = sum(map(math.prod, self.shapes)) * np.dtype(self.dtype).itemsize
        states = sum(map(math.prod, self.state_shapes or ())) * np.dtype(self.state_dtype).itemsize
        return numbers + states == size

    def records(self) -> Iterator[Record]:
        """Its sentences; vectors are read one sentence at a time."""
        with open(self.path, "rb") as file:
            columns = (self.texts, self.tokens, self.offsets, self.shapes, self.lines)
            for text, tokens, offsets, shape, line in zip(*columns, strict=True):
                spans = None if offsets is None else [(start, end) for start, end in offsets]  # JSON gave lists
                yield Record(text, tokens, spans, _read_array(file, self.dtype, shape), line)

    def state(self) -> ChunkState | None:
        """The state after its last sentence."""
        if self.state_shapes is None:
            return None
        with open(self.path, "rb") as file:
            file.seek(sum(int(np.prod(shape)) for shape in self.shapes) * np.dtype(self.dtype).itemsize)
            return [_read_array(file, self.state_dtype, shape) for shape in self.state_shapes]


def write_chunk(file: IO[bytes], records: Iterable[Record], state: Callable[[], ChunkState | None]) -> None:
    """Write records as they come, then the state, which is asked for after the last record."""
    footer: dict[str, Any] = {name: [] for name in ("texts", "tokens", "offsets", "shapes", "lines")}
    footer |= {"dtype": "float32", "state_shapes": None, "state_dtype": "float32"}
    checksum = 0

    def put(data: memoryview | bytes) -> None:
        nonlocal checksum
        checksum = zlib.crc32(data, checksum)
        file.write(data)

    for record in records:
        vectors = np.ascontiguousarray(record.vectors)
        put(vectors.reshape(-1).view(np.uint8).data)
        values = (record.text, record.tokens, record.offsets, vectors.shape, record.line)
        for name, value in zip(footer, values, strict=False):
            footer[name].append(value)
        footer["dtype"] = str(vectors.dtype)
    if (arrays := state()) is not None:
        footer["state_shapes"] = [array.shape for array in arrays]
        footer["state_dtype"] = str(arrays[0].dtype)
        for array in arrays:
            put(array.tobytes())
    text = json.dumps(footer).encode()
    put(text)
    file.write(_TAIL.pack(len(text), checksum, _MAGIC))


def read_chunk(path: Path, *, check: bool) -> Chunk | None:
    """Read a chunk; None if it is missing or damaged. The checksum is verified only with `check`."""
    try:
        size = path.stat().st_size - _TAIL.size
    except FileNotFoundError:
        return None
    if size < 0:
        return None
    with open(path, "rb") as file:
        file.seek(size)
        length, checksum, magic = _TAIL.unpack(file.read())
        if magic != _MAGIC or length > size or (check and _checksum(file, size) != checksum):
            return None
        file.seek(size - length)
        try:
            footer = from_json(Footer, parse_json(file.read(length), str(path)), str(path))
        except FormatError:
            return None
        chunk = Chunk(**vars(footer), path=path)
        return chunk if chunk.fits(size - length) else None


def _checksum(file: IO[bytes], size: int) -> int:
    file.seek(0)
    checksum = 0
    while size > 0:
        block = file.read(min(size, _BLOCK))
        checksum, size = zlib.crc32(block, checksum), size - len(block)
    return checksum


def _read_array(file: IO[bytes], dtype: str, shape: Sequence[int]) -> NDArray[np.floating]:
    return np.fromfile(file, dtype, count=int(np.prod(shape))).reshape(shape)
