"""Sentences of a caller: raw text, lists of tokens, and what is neither."""

from __future__ import annotations

import pytest

from elmokit.errors import InputError
from elmokit.text.tokenized import TokenizedSentence, tokenized
from elmokit.text.tokenizer import spaces


def test_text_and_tokens() -> None:
    found = list(tokenized(["a bc", ["a bc", "d"], "", ()], spaces))
    assert found == [
        TokenizedSentence(["a", "bc"], "a bc", [(0, 1), (2, 4)]),
        TokenizedSentence(["a bc", "d"]),
        TokenizedSentence([], "", []),
        TokenizedSentence([]),
    ]


def test_a_tokenizer_of_strings_gives_no_offsets() -> None:
    assert list(tokenized(["a bc"], str.split)) == [TokenizedSentence(["a", "bc"], "a bc", None)]


@pytest.mark.parametrize("wrong", [3, None, [["a"]], [b"a"], {"a"}])
def test_anything_else_is_named_by_its_number(wrong: object) -> None:
    with pytest.raises(InputError, match="sentence 1: expected text or a list of tokens, found"):
        list(tokenized(["fine", wrong], spaces))  # type: ignore[list-item]


def test_sentences_are_read_one_at_a_time() -> None:
    stream = tokenized((str(number) for number in iter(int, 1)), spaces)
    assert next(stream).tokens == ["0"]
