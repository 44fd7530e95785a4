"""Sentences with their predicates, and the roles of the words around each."""

from __future__ import annotations

from dataclasses import dataclass

from elmokit.errors import InputError
from elmokit.tasks.tags import Span


@dataclass(frozen=True)
class Proposition:
    """A predicate and its spans, in their order; no two overlap.

    The predicate's own words are the span V. A label may begin with C-, for what continues an argument of that label,
    or with R-, for a word that refers to one.
    """

    predicate: int  # the token that evokes it
    spans: tuple[Span, ...]
    verbal: bool = True  # or a noun or an adjective


@dataclass(frozen=True)
class Sentence:
    """A sentence and its propositions; None where they are not known, and the predicates are to be found."""

    tokens: tuple[str, ...]
    propositions: tuple[Proposition, ...] | None = None

    def __post_init__(self) -> None:
        if not self.tokens:
            raise InputError("sentence: expected at least one word, found none")

    def known(self) -> tuple[Proposition, ...]:
        """The propositions, where they must be known: to train, and to score."""
        if self.propositions is None:
            text = " ".join(self.tokens)[:60]
            raise InputError(f"expected sentences with their propositions, found one without: {text!r}")
        return self.propositions


@dataclass(frozen=True)
class Labelled:
    """The spans that the network gives to a predicate."""

    predicate: int
    spans: tuple[Span, ...]
    scores: tuple[float, ...] = ()  # of every span: the geometric mean of the probabilities of its tags


@dataclass(frozen=True)
class Roles:
    """What the network says of a sentence."""

    propositions: tuple[Labelled, ...]  # of the predicates that were given; of those that were found, if none were
    found: dict[int, float]  # the predicates that it finds itself, with their probabilities
