"""Sentences with predicates and their semantic roles."""

from __future__ import annotations

from dataclasses import dataclass

from elmokit.errors import InputError
from elmokit.tasks.shared.tags import Span


@dataclass(frozen=True)
class Proposition:
    """A predicate and its non-overlapping role spans, in text order.

    The predicate itself is the span V. The prefix C- marks the continuation of an argument, R- a reference to one.
    """

    predicate: int  # index of the predicate token
    spans: tuple[Span, ...]
    verbal: bool = True  # False for a noun or an adjective


@dataclass(frozen=True)
class SrlSentence:
    """A sentence and its propositions; None if unknown, so that predicates must be identified."""

    tokens: tuple[str, ...]
    propositions: tuple[Proposition, ...] | None = None

    def __post_init__(self) -> None:
        if not self.tokens:
            raise InputError("sentence: expected at least one word, found none")

    def known(self) -> tuple[Proposition, ...]:
        """The gold propositions, required for training and evaluation."""
        if self.propositions is None:
            text = " ".join(self.tokens)[:60]
            raise InputError(f"expected sentences with their propositions, found one without: {text!r}")
        return self.propositions


@dataclass(frozen=True)
class LabeledPredicate:
    """Predicted role spans of a predicate."""

    predicate: int
    spans: tuple[Span, ...]
    scores: tuple[float, ...] = ()  # per span: geometric mean of its tag probabilities


@dataclass(frozen=True)
class Roles:
    """Prediction for a sentence."""

    propositions: tuple[LabeledPredicate, ...]  # for the given predicates, or for the identified ones if none are given
    found: dict[int, float]  # identified predicates with their probabilities
