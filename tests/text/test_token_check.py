"""Raw and tokenized text are told apart."""

from __future__ import annotations

import pytest

from elmokit.text.token_check import TokenCheck, has_attached_punctuation, looks_tokenized
from elmokit.text.tokenizer import words

RAW = [
    'He said: "I don\'t know." Mr. Smith (of the U.S. office) paid $5.',
    "The meeting, which began at 9 a.m., was long; nobody stayed!",
    "Really? Yes, really.",
]


@pytest.mark.parametrize("token", ["present.", '"I', "(Really?)", "don't", "it’s", "end)", "苹果。", "etc.,"])
def test_attached(token: str) -> None:
    assert has_attached_punctuation(token)


@pytest.mark.parametrize(
    "token",
    ["present", ".", "...", "n't", "'s", "U.S.", "Mr.", "No.", "p.m.", ":)", "``", "a", "3.14", "", "'em"],
)
def test_not_attached(token: str) -> None:
    assert not has_attached_punctuation(token)


def test_raw_and_tokenized() -> None:
    assert not looks_tokenized(RAW)
    tokenized = [" ".join(token.text for token in words(line)) for line in RAW]
    assert looks_tokenized(tokenized)
    # what was tokenized stays as it is, whichever tokenizer reads it
    assert [[token.text for token in words(line)] for line in tokenized] == [line.split() for line in tokenized]
    assert not looks_tokenized(["我喜欢吃苹果"]) and looks_tokenized(["我 喜欢 吃 苹果"])
    assert looks_tokenized([]) and looks_tokenized(["", "no punctuation at all"])


def warning(*sentences: list[str]) -> str | None:
    check = TokenCheck()
    for tokens in sentences:
        check.add(tokens)
    return check.warning


def test_warnings() -> None:
    assert "punctuation attached, such as 'said:'" in (warning(*(line.split() for line in RAW)) or "")
    assert warning(*([token.text for token in words(line)] for line in RAW)) is None
    assert warning(["Yahoo!"]) is None
    assert "han (Chinese)" in (warning(["我喜欢吃苹果"]) or "")
    assert "han (Chinese)" in (warning(["我喜欢吃苹果", "。"], ["今天天气很好"]) or "")
    assert warning(["我", "喜欢", "吃", "苹果", "。"]) is None
    assert warning(["눈이", "온다"], ["the", "word", "苹果"]) is None
