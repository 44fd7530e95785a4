"""Word vector files: GloVe text, word2vec text and word2vec binary, plain or compressed."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from elmokit.disk.limits import exceeded, limits
from elmokit.disk.unpack import lines
from elmokit.errors import FormatError
from elmokit.text.lines import open_bytes

FREQUENT = 20_000  # first rows of a file, always kept: files start with the most frequent words
_DECIMALS = frozenset(b"0123456789+-.eE \r\n")
_CHUNK = 1 << 20
_MAX_COLUMNS = 100_000


class WordVectors(NamedTuple):
    """Requested and frequent words of a file, in file order."""

    words: list[str]
    vectors: NDArray[np.float32]  # (n, d)


class _Row(NamedTuple):
    """A word and its unparsed numbers."""

    word: bytes
    numbers: bytes
    dim: int
    is_binary: bool

    def vector(self) -> NDArray[np.float32]:
        if self.is_binary:
            return np.frombuffer(self.numbers, "<f4").astype(np.float32)
        return np.array(self.numbers.split(), dtype=np.float32).reshape(self.dim)  # a ValueError for another count


def read_vectors(path: Path, wanted: Collection[str], *, frequent: int = FREQUENT) -> WordVectors:
    """Read the vectors of wanted words, as given or in lower case, and of the most frequent words.

    The format is detected. A word2vec file starts with the numbers of words and columns, followed by float32 numbers
    (binary) or decimals (text). If a word occurs twice, its first vector counts.
    """
    keys = {key.encode("utf-8", "ignore") for word in wanted for key in (word, word.lower())}
    kept: dict[bytes, NDArray[np.float32]] = {}
    with open_bytes(path) as file:
        for number, row in enumerate(_rows(file, path)):
            if (number < frequent or row.word in keys) and row.word not in kept:
                try:
                    kept[row.word] = row.vector()
                except ValueError:
                    found = _text(row.numbers[:40])
                    raise FormatError(
                        f"{path}: expected {row.dim} numbers after {_text(row.word)!r}, found {found!r}"
                    ) from None
    if not kept:
        raise FormatError(f"{path}: expected word vectors, found an empty file")
    vectors = np.stack(list(kept.values()))
    if len(bad := np.argwhere(~np.isfinite(vectors))):
        raise FormatError(f"{path}: expected finite numbers, found others after {_text(list(kept)[bad[0, 0]])!r}")
    return WordVectors([_text(word) for word in kept], vectors)


def _rows(file: IO[bytes], path: Path) -> Iterator[_Row]:
    limit = limits().line
    first = file.readline(limit + 1)
    if len(first) > limit:
        raise exceeded(str(path), f"line 1 is longer than {limit:,} bytes")
    fields = first.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        yield from _text_rows(chain([first], lines(file, str(path))), path, len(fields) - 1)
        return
    n_words, dim = map(int, fields)
    if not 0 < dim <= _MAX_COLUMNS:
        raise FormatError(f"{path}: expected 1 to {_MAX_COLUMNS:,} columns, found {dim:,} in its first line")
    start = cast(io.BufferedReader, file).peek(64)[:64].partition(b" ")[2].partition(b"\n")[0]
    is_text = bool(start) and _DECIMALS.issuperset(start)
    rows = _text_rows(lines(file, str(path)), path, dim) if is_text else _binary_rows(file, path, n_words, dim)
    count = 0
    for count, row in enumerate(rows, start=1):  # noqa: B007  (used after the loop)
        yield row
    if count != n_words:
        raise FormatError(f"{path}: expected {n_words:,} words, as its first line says, found {count:,}")


def _text_rows(rows: Iterable[bytes], path: Path, dim: int) -> Iterator[_Row]:
    if dim < 1:
        raise FormatError(f"{path}: expected lines of a word and its numbers, found none in the first line")
    for number, line in enumerate(rows, start=1):
        line = line.rstrip()
        if line.count(b" ") < dim:
            raise FormatError(
                f"{path}: expected {dim} numbers after a word, found {line.count(b' ')} in row {number:,}: "
                f"{_text(line[:40])!r}"
            )
        word, _, numbers = line.partition(b" ")
        if numbers.count(b" ") != dim - 1:  # a few words in the largest files contain spaces
            word, *rest = line.rsplit(b" ", dim)
            numbers = b" ".join(rest)
        yield _Row(word, numbers, dim, is_binary=False)


def _binary_rows(file: IO[bytes], path: Path, n_words: int, dim: int) -> Iterator[_Row]:
    buffer, at = b"", 0  # bytes read, and how many of them are parsed
    for number in range(n_words):
        while (space := buffer.find(b" ", at)) < 0 or len(buffer) < space + 1 + 4 * dim:
            if space < 0 and len(buffer) - at > limits().line:
                raise exceeded(str(path), f"word {number + 1:,} is longer than {limits().line:,} bytes")
            more = file.read(_CHUNK)
            if not more:
                raise FormatError(f"{path}: expected {n_words:,} words, as its first line says, found {number:,}")
            buffer, at = buffer[at:] + more, 0
        end = space + 1 + 4 * dim
        yield _Row(buffer[at:space].lstrip(b"\n"), buffer[space + 1 : end], dim, is_binary=True)
        at = end


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")
