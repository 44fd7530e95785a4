"""Where sentences end."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.text.sentences import split_sentences


@given(st.text(st.characters()) | st.text("aA1.!?\"') \n", max_size=40))
def test_spans_cover_the_text_and_are_stripped(text: str) -> None:
    spans = split_sentences(text)
    sentences = [text[start:end] for start, end in spans]
    assert all(sentence == sentence.strip() and sentence for sentence in sentences)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert not any("\n\n" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith paid $3.50.", "He left!"],
        ['He said "Go."', "Then he left.", "(Really.)", "Yes?!", "No"],
        ['"Really?" he asked.', "“Yes!” she cried."],
        ["We saw cats, e.g. Tom, etc. and left.", "The U.S. Army came.", "He lives in the U.S.", "He likes it."],
        ["J. R. Smith wrote it.", "See Fig. 3.", "No. 5 is alive.", "I said no.", "It was 5 p.m.", "Then we left."],
        ["Wait... what?", "Well...", "Nothing."],
        ["i like it.", "he does not."],
        ["1. Open the door.", "2. Go in."],
        ["He left .", "She stayed . . .", "They came ."],
        ["今天很好。", "我们走吧！", "「好。」", "是"],
        ["One sentence\nover two lines.", "Next."],
    ],
)
def test_english(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


def test_blank_lines_always_end_a_sentence() -> None:
    text = "A title\n\nMr.\n \t\nSmith\r\n\r\n\n\nends"
    assert [text[start:end] for start, end in split_sentences(text)] == ["A title", "Mr.", "Smith", "ends"]
    assert split_sentences("") == split_sentences(" \n\n ") == []


@pytest.mark.parametrize("unit", ["a. ", ". ", ".", "!?", "\n", "\n ", '." ', "Mr. ", " ", "a" * 50 + "." + " " * 50])
def test_time_grows_with_the_text_only(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    start = time.perf_counter()
    split_sentences(text)
    assert time.perf_counter() - start < 5  # a quadratic step would take minutes
