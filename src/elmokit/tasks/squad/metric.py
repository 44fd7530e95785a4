"""Exact match and F1 of answers, as the official script of SQuAD 1.1 counts them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def normalise(answer: str) -> str:
    """Lower case, without ASCII punctuation and articles, one space between words: in this order, which matters."""
    return " ".join(_ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """1 when both are the same after normalisation, else 0."""
    return float(normalise(answer) == normalise(gold))


def f1(answer: str, gold: str) -> float:
    """Harmonic mean of precision and recall over the bag of words, 0 to 1; 0 where a side has no words at all."""
    ours, theirs = normalise(answer).split(), normalise(gold).split()
    same = (Counter(ours) & Counter(theirs)).total()
    return 2 * same / (len(ours) + len(theirs)) if same else 0.0  # 2pr / (p + r), p = same / ours, r = same / theirs


def score_answers(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, float]:
    """`em` and `f1`, 0 to 100: each question counts with the gold answer that suits its answer best."""
    if not answers:
        return {"em": 0.0, "f1": 0.0}
    pairs = list(zip(answers, golds, strict=True))
    return {
        name: 100
        * sum(max(compare(answer, gold) for gold in gold_answers) for answer, gold_answers in pairs)
        / len(pairs)
        for name, compare in (("em", exact_match), ("f1", f1))
    }
