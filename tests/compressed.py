"""Compressed samples: what a suffix stands for, in one place."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

SUFFIXES = (".gz", ".xz", ".bz2", ".zst")


def compress(data: bytes, suffix: str) -> bytes:
    """As the suffix says; "" and others leave it plain. A test that has no zstandard is skipped."""
    if suffix == ".gz":
        return gzip.compress(data)
    if suffix == ".xz":
        return lzma.compress(data)
    if suffix == ".bz2":
        return bz2.compress(data, compresslevel=1)  # in small blocks
    if suffix == ".zst":
        return bytes(pytest.importorskip("zstandard").compress(data))
    return data


def write(path: Path, text: str) -> Path:
    """A file of the given text, compressed as its suffix says."""
    path.write_bytes(compress(text.encode(), path.suffix))
    return path
