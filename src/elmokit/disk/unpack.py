"""Streaming decompression and line splitting, with limits."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from typing import IO, cast

from elmokit.disk.limits import check_ratio, exceeded, limits
from elmokit.errors import MissingExtraError

COMPRESSED_SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
DAMAGED = (EOFError, zlib.error, lzma.LZMAError)  # raised for damaged files, besides OSError
_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}
_ZSTD_CHUNK = 512  # compressed bytes at a time: few, because repetitive text can expand ten-thousandfold


def compression(file: IO[bytes]) -> str:
    """Suffix of the compression format of a file, by its first bytes; "" if it is not compressed."""
    start = file.tell()
    head = file.read(6)
    file.seek(start)
    return next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), "")


def decompressed(file: IO[bytes], suffix: str, label: str) -> IO[bytes]:
    """Decompress a file by its suffix; raise a FormatError for an implausible compression ratio."""
    if suffix == ".gz":
        inner: IO[bytes] = cast(IO[bytes], gzip.GzipFile(fileobj=file))
    elif suffix == ".xz":
        inner = cast(IO[bytes], lzma.LZMAFile(file))  # noqa: SIM115  (the caller closes the file)
    elif suffix == ".bz2":
        inner = cast(IO[bytes], bz2.BZ2File(file))
    elif suffix == ".zst":
        inner = cast(IO[bytes], _ZstdFile(file))
    else:
        return file
    return io.BufferedReader(_Counted(file, inner, label), 2**16)


def lines(file: IO[bytes], label: str) -> Iterator[bytes]:
    """Lines of a file with their line endings; raises a FormatError for a line longer than the limit."""
    longest, number = limits().line, 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise exceeded(label, f"line {number} is longer than {longest:,} bytes")
        yield line


class _Counted(io.RawIOBase):
    """Decompressed stream that checks the compression ratio while reading."""

    def __init__(self, packed: IO[bytes], unpacked: IO[bytes], label: str) -> None:
        self._packed, self._unpacked, self._label, self._count = packed, unpacked, label, 0

    def readable(self) -> bool:
        """True, as BufferedReader requires."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer with decompressed bytes; 0 at the end."""
        content = self._unpacked.read(len(buffer))
        buffer[: len(content)] = content
        self._count += len(content)
        if self._count > limits().small:
            check_ratio(self._label, self._packed.tell(), self._count)
        return len(content)


class _ZstdFile(io.RawIOBase):
    """Zstandard reader that detects truncated files, which the reader of the library accepts."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("reading .zst files", "zstd") from None
        self._file = file
        self._library = zstandard
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._started = False  # whether the current frame has started
        self._text = memoryview(b"")  # decompressed, not yet returned

    def readable(self) -> bool:
        """True, as BufferedReader requires."""
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
