"""Exact match and F1 against values worked out by hand, and against a plain copy of the definition."""

from __future__ import annotations

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.tasks.squad.squad_metric import exact_match, f1, normalize, score_answers


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The  Eiffel Tower.", "eiffel tower"),
        ("a an the", ""),
        ("theatre, Anna & Theo", "theatre anna theo"),  # articles only as whole words
        ("U.S.-led", "usled"),  # punctuation goes, and leaves no space
        ("the-end", "theend"),  # punctuation goes first, so this article is no word any more
        ("“the” end", "“ ” end"),  # only ASCII punctuation goes
        ("$1,000.50", "100050"),
        ("naïve\tİ\n", "naïve i̇"),
    ],
)
def test_normalize(answer: str, expected: str) -> None:
    assert normalize(answer) == expected


@pytest.mark.parametrize(
    ("answer", "gold", "em", "expected"),
    [
        ("the Rhine", "Rhine", 1, 1),
        ("river Rhine", "Rhine", 0, 2 / 3),  # precision 1/2, recall 1
        ("in the cold winter of 1708", "winter 1708", 0, 4 / 7),  # 2 of 5, 2 of 2
        ("no no no", "no", 0, 0.5),  # the one word of the gold counts once
        ("Rhine", "Danube", 0, 0),
        ("the", "Rhine", 0, 0),
        ("the", "an", 1, 0),  # two answers without words: equal, but with no word in common
        ("", "", 1, 0),
    ],
)
def test_one_pair(answer: str, gold: str, em: float, expected: float) -> None:
    assert exact_match(answer, gold) == em
    assert f1(answer, gold) == pytest.approx(expected)


def test_the_best_gold_counts_for_each_measure_alone() -> None:
    answers = ["14 May", "blue", "a cat", "nothing"]
    golds = [["14 May 1607", "May 14"], ["blue"], ["cats", "the cat"], ["all"]]
    # em: 0, 1, 1, 0; f1: max(4/5, 1), 1, 1, 0
    assert score_answers(answers, golds) == {"em": 50.0, "f1": 75.0}


def test_lists_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        score_answers(["one", "two"], [["one"]])


def official(answer: str, gold: str) -> tuple[float, float]:
    """The definition, step by step: precision and recall over bags of words."""

    def words(text: str) -> list[str]:
        text = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    ours, theirs = words(answer), words(gold)
    same = sum((Counter(ours) & Counter(theirs)).values())
    if same == 0:
        return float(" ".join(ours) == " ".join(theirs)), 0.0
    precision, recall = same / len(ours), same / len(theirs)
    return float(" ".join(ours) == " ".join(theirs)), 2 * precision * recall / (precision + recall)


ANSWERS = st.lists(st.sampled_from([*"aé'.", "the", "An", "Rhine", "rhine,", "1708", "in-land"]), max_size=6).map(
    " ".join
)


@given(st.one_of(ANSWERS, st.text(max_size=12)), st.one_of(ANSWERS, st.text(max_size=12)))
def test_against_the_definition(answer: str, gold: str) -> None:
    em, expected = official(answer, gold)
    assert exact_match(answer, gold) == em
    assert f1(answer, gold) == pytest.approx(expected)
    assert f1(answer, gold) == f1(gold, answer)
    assert f1(answer, gold) <= 1
    assert not (em and normalize(answer)) or f1(answer, gold) == 1
