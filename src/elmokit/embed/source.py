"""The sentences of text files, one file after the other, each with its place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import InputError
from elmokit.text.lines import EncodingErrors, LineReader
from elmokit.text.sentences import split_sentences


class Line(NamedTuple):
    """A sentence and its position in a file."""

    text: str
    file: str
    number: int  # of the line in its file, from 1

    @property
    def place(self) -> str:
        """File and line number, for messages."""
        return f"{self.file}: line {self.number}"


class TextSource:
    """Sentences of plain or compressed files, or of standard input ("-"): one per line, or with `split` all of a line.

    All files are opened once before the first is read, so that a missing file is reported at the start of a long run.
    """

    bytes_total: int | None  # size of all files on disk; None if one has no size

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        encoding_errors: EncodingErrors | None = None,
        split: bool = False,
    ) -> None:
        if not inputs:
            raise InputError("expected one text file or more, or - for standard input, found none")
        self._inputs = [os.fspath(path) for path in inputs]
        self._encoding_errors, self._split = encoding_errors, split
        self._reader: LineReader | None = None
        self._bytes_before = 0  # of the files that are read
        sizes = [self._size(path) for path in self._inputs]
        self.bytes_total = None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, of `bytes_total`."""
        return self._bytes_before + (self._reader.bytes_read if self._reader else 0)

    @property
    def place(self) -> str:
        """The line last read, for messages."""
        return f"{self._reader.name}: line {self._reader.line_number}" if self._reader else self._inputs[0]

    def __iter__(self) -> Iterator[Line]:
        for path in self._inputs:
            self._bytes_before, self._reader = self.bytes_read, None
            with LineReader(path, encoding_errors=self._encoding_errors) as reader:
                self._reader = reader
                for text in reader:
                    spans = split_sentences(text) if self._split else [(0, len(text))]
                    for start, end in spans:
                        yield Line(text[start:end], reader.name, reader.line_number)

    def _size(self, path: str) -> int | None:
        if path == "-" or Path(path).is_fifo():  # opening a pipe twice would lose what is in it
            return None
        with LineReader(path, encoding_errors=self._encoding_errors) as reader:
            return reader.bytes_total


def chunks(lines: Iterable[Line], characters: int, multiple: int = 1) -> Iterator[list[Line]]:
    """Chunks of at least `characters` characters, line ends included, and of a multiple of `multiple` lines."""
    chunk: list[Line] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line.text) + 1
        if size >= characters and len(chunk) % multiple == 0:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
