"""Stored chunks: what was put in comes back, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmokit.embed.chunk import read_chunk, write_chunk
from elmokit.embed.record import Record


def record(text: str, n: int) -> Record:
    rng = np.random.default_rng(n)
    return Record(
        text, [text] * n, None if n % 2 else [(k, k + 1) for k in range(n)], rng.random((3, n, 2), np.float32)
    )


def test_a_chunk_gives_back_what_was_put_in(tmp_path: Path) -> None:
    state = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 5), np.float32)]
    stored = [record("a", 3), record("ü\n\ud7ff", 0), record("c", 2)]
    with open(tmp_path / "c", "wb") as file:
        write_chunk(file, stored, lambda: state)
    chunk = read_chunk(tmp_path / "c", check=True)
    assert chunk is not None
    for put, got in zip(stored, chunk.records(), strict=True):
        assert (got.text, got.tokens, got.offsets) == (put.text, put.tokens, put.offsets)
        assert got.vectors.dtype == np.float32
        np.testing.assert_array_equal(got.vectors, put.vectors)
    for put_array, got_array in zip(state, chunk.state() or [], strict=True):
        np.testing.assert_array_equal(got_array, put_array)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_or_cut_chunk_is_none(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "c"
    with open(path, "wb") as file:
        write_chunk(file, [record("a", 3), record("b", 2)], lambda: None)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:place])
    else:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :])
    assert read_chunk(path, check=True) is None
