"""Lines of a text file, plain or compressed, or of standard input: streaming, with the place of every fault named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, cast, get_args

from elmokit.errors import ConfigError, InputError, MissingExtraError

EncodingErrors = Literal["strict", "replace", "ignore"]

COMPRESSED_SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
_BOM = b"\xef\xbb\xbf"
_ZSTD_CHUNK = 512  # compressed bytes at a time: few, because text that repeats itself unfolds ten-thousandfold


class LineReader:
    r"""Iterates over the lines of a UTF-8 file in memory that does not grow with the file.

    The suffix tells the compression: `.gz`, `.xz`, `.bz2`, `.zst`; `-` is standard input. Only `\n` and `\r\n` end a
    line, and neither is part of it. A byte order mark at the start is dropped. Every fault is an InputError that names
    the file.
    """

    bytes_total: int | None  # size of the file as it lies on disk; None when it has none, as standard input

    def __init__(self, source: str | Path, *, encoding_errors: EncodingErrors | None = None) -> None:
        """encoding_errors: None is strict where the user has no say."""
        if encoding_errors not in (None, *get_args(EncodingErrors)):
            expected = ", ".join(get_args(EncodingErrors))
            raise ConfigError(f"--encoding-errors: expected one of {expected}, found {encoding_errors!r}")
        self.name = "standard input" if str(source) == "-" else str(source)
        self.line_number = 0  # of the line last read
        self._encoding_errors = encoding_errors
        self._consumed = 0  # bytes of the lines read so far
        self._owns_file = str(source) != "-"
        if not self._owns_file and sys.stdin is None:
            raise InputError("standard input: expected text, found it closed")
        self._file = _open(source) if self._owns_file else sys.stdin.buffer
        status = os.fstat(self._file.fileno()) if self._owns_file else None
        self.bytes_total = status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None
        try:
            self._lines = _decompress(self._file, Path(source).suffix if self._owns_file else "")
        except MissingExtraError:
            self.close()
            raise

    @property
    def bytes_read(self) -> int:
        """Bytes taken so far, on the scale of `bytes_total`: compressed ones of a compressed file."""
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
        except (EOFError, zlib.error, lzma.LZMAError) as error:
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
    """The lines of a file, also `.gz`, `.xz`, `.bz2` or `.zst`, or of standard input (`-`), without their line ends."""
    with LineReader(source, encoding_errors=encoding_errors) as reader:
        yield from reader


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed as its suffix says; what goes wrong while they are read is an InputError."""
    with _open(path) as file:
        try:
            yield _decompress(file, path.suffix)
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            raise InputError(f"{path}: damaged or cut off ({error})") from None


def _open(source: str | Path) -> IO[bytes]:
    try:
        return open(source, "rb")
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{source}: expected a readable text file ({reason})") from None


def _decompress(file: IO[bytes], suffix: str) -> IO[bytes]:
    """Lines of a file, decompressed as its suffix says; binary files end a line at a newline and nowhere else."""
    if suffix == ".gz":
        return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=file)))
    if suffix == ".xz":
        return io.BufferedReader(cast(io.RawIOBase, lzma.LZMAFile(file)))
    if suffix == ".bz2":
        return io.BufferedReader(cast(io.RawIOBase, bz2.BZ2File(file)))
    if suffix == ".zst":
        return io.BufferedReader(_ZstdFile(file))
    return file


class _ZstdFile(io.RawIOBase):
    """The text of a zstd file. The library's own reader takes a file that was cut off for one that ends there."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("reading .zst files", "zstd") from None
        self._file = file
        self._library = zstandard
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._started = False  # whether the present frame has begun
        self._text = memoryview(b"")  # decompressed, not yet handed on

    def readable(self) -> bool:
        """True: this is what BufferedReader asks."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer with decompressed bytes; 0 at the end."""
        while not self._text:
            chunk = self._frame.unused_data or self._file.read(_ZSTD_CHUNK)
            if self._frame.eof:
                self._frame, self._started = self._library.ZstdDecompressor().decompressobj(), False
            if not chunk:
                if self._started:
                    raise EOFError("the last zstd frame has no end")
                return 0
            self._started = True
            try:
                self._text = memoryview(self._frame.decompress(chunk))
            except self._library.ZstdError as error:
                raise EOFError(str(error)) from None
        size = min(len(buffer), len(self._text))
        buffer[:size] = self._text[:size]
        self._text = self._text[size:]
        return size
