"""Sentences of text files with their places, and chunks of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.embed.source import Line, TextSource, chunks
from elmokit.errors import InputError


@given(lengths=st.lists(st.integers(0, 30), max_size=40), characters=st.integers(1, 60), multiple=st.integers(1, 4))
def test_chunks_keep_the_lines_and_the_batches(lengths: list[int], characters: int, multiple: int) -> None:
    lines = [Line("x" * length, "f", k) for k, length in enumerate(lengths)]
    result = list(chunks(lines, characters, multiple))
    assert [line for chunk in result for line in chunk] == lines
    for chunk in result[:-1]:
        assert len(chunk) % multiple == 0
        assert sum(len(line.text) + 1 for line in chunk) >= characters


def test_lines_know_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One. Two.\n\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("Three\n", encoding="utf-8")
    inputs = [tmp_path / "a.txt", tmp_path / "b.txt"]
    source = TextSource(inputs)
    assert [(line.text, line.number) for line in source] == [("One. Two.", 1), ("", 2), ("Three", 1)]
    assert source.bytes_read == source.bytes_total == sum(path.stat().st_size for path in inputs)
    assert source.place.endswith("b.txt: line 1")
    split = list(TextSource(inputs, split=True))
    assert [line.text for line in split if line.text] == ["One.", "Two.", "Three"]
    assert split[1].place.endswith("a.txt: line 1")


def test_all_files_are_looked_at_first(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"missing\.txt"):
        TextSource([tmp_path / "a.txt", tmp_path / "missing.txt"])
    with pytest.raises(InputError, match="expected one text file or more"):
        TextSource([])
