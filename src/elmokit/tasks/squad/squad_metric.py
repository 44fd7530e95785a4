"""Exact match and F1 of answers, as in the official SQuAD 1.1 script."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def normalize(answer: str) -> str:
    """Normalize: lower-case, remove ASCII punctuation, remove articles, collapse whitespace, in this order."""
    return " ".join(_ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """1 if both are equal after normalization, else 0."""
    return float(normalize(answer) == normalize(gold))


def f1(answer: str, gold: str) -> float:
    """Harmonic mean of precision and recall over bags of words, 0 to 1; 0 if a side has no words."""
    ours, theirs = normalize(answer).split(), normalize(gold).split()
    same = (Counter(ours) & Counter(theirs)).total()
    return 2 * same / (len(ours) + len(theirs)) if same else 0.0  # 2pr / (p + r), p = same / ours, r = same / theirs


def score_answers(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, float]:
    """`em` and `f1`, 0 to 100: the maximum over the reference answers of each question, averaged."""
    if not answers:
        return {"em": 0.0, "f1": 0.0}
    pairs = list(zip(answers, golds, strict=True))
    return {
        name: 100
        * sum(max(compare(answer, gold) for gold in gold_answers) for answer, gold_answers in pairs)
        / len(pairs)
        for name, compare in (("em", exact_match), ("f1", f1))
    }
