"""Rules for input lines: blank lines, and sentences that are HDF5 keys."""

from __future__ import annotations

import re

import pytest

from elmokit.embed.line_checks import checked, sentence_key
from elmokit.embed.source import Line
from elmokit.errors import InputError


def lines(*texts: str) -> list[Line]:
    return [Line(text, "in.txt", number) for number, text in enumerate(texts, start=1)]


def test_lines_pass_unchanged() -> None:
    given = lines("a b", "", "a b", "a/b")
    assert list(checked(given)) == given


@pytest.mark.parametrize("blank", ["", " \t"])
def test_a_blank_line_is_an_error_if_asked_for(blank: str) -> None:
    result = checked(lines("a", blank), blank_lines="error")
    assert next(result).text == "a"
    with pytest.raises(InputError, match=re.escape("in.txt: line 2: expected words, found a blank line")):
        next(result)


def test_sentences_as_keys() -> None:
    given = lines("a b", "c/d", "c/e", "c / f")
    assert list(checked(given, sentence_keys=True)) == given
    assert sentence_key("  a b\t") == "a b"


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (("a", " a "), "has the key of an earlier line"),
        (("c", "c/d"), "has the key of an earlier line"),  # a dataset cannot be a group, too
        (("c/d", "c"), "has the key of an earlier line"),
        (("a//b", "a/./b"), "has the key of an earlier line"),
        (("a", "/"), "cannot be a key"),
        (("a", " "), "cannot be a key"),
    ],
)
def test_keys_that_clash(texts: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError, match=f"in.txt: line 2: {problem}"):
        list(checked(lines(*texts), sentence_keys=True))
