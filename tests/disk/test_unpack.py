"""Decompression and lines: every format, damage, decompression bombs, lines that are too long."""

from __future__ import annotations

import io

import pytest
from compressed import SUFFIXES, compress
from hypothesis import given
from hypothesis import strategies as st

from elmokit.disk import limits
from elmokit.disk.limits import Limits
from elmokit.disk.unpack import COMPRESSED_SUFFIXES, DAMAGED, compression, decompressed, lines
from elmokit.errors import FormatError

DATA = bytes(range(256)) * 1000


def unpack(packed: bytes, suffix: str) -> bytes:
    return decompressed(io.BytesIO(packed), suffix, "x").read()


def test_every_suffix_is_tested() -> None:
    assert SUFFIXES == COMPRESSED_SUFFIXES


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_there_and_back(suffix: str) -> None:
    packed = io.BytesIO(compress(DATA, suffix))
    assert compression(packed) == suffix and packed.tell() == 0
    assert decompressed(packed, suffix, "x").read() == DATA


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_several_parts_in_one_file(suffix: str) -> None:
    """As `cat a.gz b.gz` makes them."""
    assert unpack(compress(b"one\n", suffix) + compress(b"two\n", suffix), suffix) == b"one\ntwo\n"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_truncation_is_found(suffix: str) -> None:
    packed = compress(DATA, suffix)
    with pytest.raises((*DAMAGED, OSError)):
        unpack(packed[: 2 * len(packed) // 3], suffix)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])  # a zstd frame need not have a checksum
def test_damage_is_found(suffix: str) -> None:
    packed = bytearray(compress(DATA, suffix))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises((*DAMAGED, OSError)):
        unpack(bytes(packed), suffix)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bombs_are_refused_while_they_unfold(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_limits", Limits(small=1000, ratio=10))
    with pytest.raises(FormatError, match=r"x: refused, as .* bytes unpack to .* or more, over 10 times as many"):
        unpack(compress(bytes(2_000_000), suffix), suffix)


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b"")), max_size=20))
def test_lines_are_those_of_python(found: list[bytes]) -> None:
    text = b"\n".join(found)
    assert list(lines(io.BytesIO(text), "x")) == io.BytesIO(text).readlines()


def test_a_line_that_is_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_limits", Limits(line=10))
    assert list(lines(io.BytesIO(b"123456789\n"), "x")) == [b"123456789\n"]
    with pytest.raises(FormatError, match=r"x: line 2 is longer than 10 bytes; .* raise the limits"):
        list(lines(io.BytesIO(b"short\n" + b"1" * 11), "x"))
