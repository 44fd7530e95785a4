"""Streaming line reader for plain and compressed text files and standard input."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, get_args

from elmokit.disk.unpack import COMPRESSED_SUFFIXES, DAMAGED, decompressed, lines
from elmokit.errors import ConfigError, FormatError, InputError, MissingExtraError

__all__ = ["COMPRESSED_SUFFIXES", "EncodingErrors", "LineReader", "open_bytes", "read_lines"]

EncodingErrors = Literal["strict", "replace", "ignore"]

_BOM = b"\xef\xbb\xbf"


class LineReader:
    r"""Iterator over the lines of a UTF-8 file, in constant memory.

    The suffix determines the compression: `.gz`, `.xz`, `.bz2`, `.zst`; `-` is standard input. Lines end in `\n` or
    `\r\n`, which is removed. A byte order mark at the start is dropped. Every error is an InputError that names the
    file.
    """

    bytes_total: int | None  # file size on disk; None for standard input and pipes

    def __init__(self, source: str | Path, *, encoding_errors: EncodingErrors | None = None) -> None:
        """encoding_errors: None is "strict", with an error message that does not suggest another choice."""
        if encoding_errors not in (None, *get_args(EncodingErrors)):
            expected = ", ".join(get_args(EncodingErrors))
            raise ConfigError(f"--encoding-errors: expected one of {expected}, found {encoding_errors!r}")
        self.name = "standard input" if str(source) == "-" else str(source)
        self.line_number = 0  # number of the last line read
        self._encoding_errors = encoding_errors
        self._consumed = 0  # bytes of the lines read so far
        self._owns_file = str(source) != "-"
        if not self._owns_file and sys.stdin is None:
            raise InputError("standard input: expected text, found it closed")
        self._file = _open(source) if self._owns_file else sys.stdin.buffer
        status = os.fstat(self._file.fileno()) if self._owns_file else None
        self.bytes_total = status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None
        try:
            suffix = Path(source).suffix if self._owns_file else ""
            self._lines = lines(decompressed(self._file, suffix, self.name), self.name)
        except MissingExtraError:
            self.close()
            raise

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, on the scale of `bytes_total`: compressed bytes of a compressed file."""
        if self.bytes_total is None:
            return self._consumed
        return self.bytes_total if self._file.closed else self._file.tell()

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                self.line_number += 1
                self._consumed += len(line)
                if self.line_number == 1:
                    line = line.removeprefix(_BOM)
                yield self._decode(line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line)
        except FormatError as error:  # a limit was exceeded
            raise InputError(str(error)) from None
        except DAMAGED as error:
            raise InputError(f"{self.name}: damaged or cut off after line {self.line_number} ({error})") from None
        except OSError as error:  # also gzip.BadGzipFile
            raise InputError(
                f"{self.name}: cannot be read after line {self.line_number} ({error.strerror or error})"
            ) from None

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._owns_file:
            self._file.close()

    def __enter__(self) -> LineReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _decode(self, line: bytes) -> str:
        try:
            return line.decode("utf-8", self._encoding_errors or "strict")
        except UnicodeDecodeError as error:
            choice = ", or use --encoding-errors replace|ignore" if self._encoding_errors else ""
            raise InputError(
                f"{self.name}: line {self.line_number}, byte {error.start + 1} is not UTF-8"
                f" (0x{line[error.start]:02x}); convert the file, as with iconv{choice}"
            ) from None


def read_lines(source: str | Path, *, encoding_errors: EncodingErrors | None = None) -> Iterator[str]:
    """Lines of a file (plain, `.gz`, `.xz`, `.bz2`, `.zst`) or of standard input (`-`), without line endings."""
    with LineReader(source, encoding_errors=encoding_errors) as reader:
        yield from reader


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, decompressed by its suffix; read errors become an InputError."""
    with _open(path) as file:
        try:
            yield decompressed(file, path.suffix, str(path))
        except (*DAMAGED, OSError) as error:
            raise InputError(f"{path}: damaged or cut off ({error})") from None


def _open(source: str | Path) -> IO[bytes]:
    try:
        return open(source, "rb")
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{source}: expected a readable text file ({reason})") from None
