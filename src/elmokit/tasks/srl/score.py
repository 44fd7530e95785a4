"""Precision, recall and F1 over arguments, as srl-eval.pl of the CoNLL-2004 and 2005 tasks counts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmokit.tasks.srl.example import Roles, Sentence
from elmokit.tasks.tags import Span


@dataclass(frozen=True)
class Argument:
    """A label and its pieces, (start, end) each: more than one where C- spans continue it."""

    label: str
    pieces: tuple[tuple[int, int], ...]


def arguments(spans: Iterable[Span]) -> list[Argument]:
    """The arguments of a proposition without its verb, by the rules of srl-eval.pl.

    A span C-X belongs to the last X before it, and is an X of its own where there is none. R-X is a label like others.
    V and what continues it are no arguments.
    """
    found: list[tuple[str, list[tuple[int, int]]]] = []
    last: dict[str, int] = {}  # label -> place of the last such argument
    for start, end, label in sorted(spans):
        base = label.removeprefix("C-")
        if base != label and base in last:
            found[last[base]][1].append((start, end))
            continue
        last[base] = len(found)
        found.append((base, [(start, end)]))
    return [Argument(label, tuple(pieces)) for label, pieces in found if label != "V"]


@dataclass
class Counts:
    """Right, excess and missed items, added up."""

    right: int = 0
    excess: int = 0
    missed: int = 0

    def add(self, gold: Iterable[object], predicted: Iterable[object]) -> None:
        """Compare what should be there with what is; in each, no two are equal."""
        expected, actual = set(gold), set(predicted)
        self.right += len(expected & actual)
        self.excess += len(actual - expected)
        self.missed += len(expected - actual)

    def percentages(self) -> tuple[float, float, float]:
        """Precision, recall, F1; 0 where there is nothing to divide by, as in srl-eval.pl."""
        precision = 100 * self.right / max(1, self.right + self.excess)
        recall = 100 * self.right / max(1, self.right + self.missed)
        both = 2 * self.right + self.excess + self.missed
        return precision, recall, 200 * self.right / max(1, both)


def score_roles(examples: Sequence[Sentence], predictions: Sequence[Roles]) -> dict[str, float]:
    """F1 over the arguments of the given predicates: of verbs (the headline), and of all, nouns and adjectives too.

    A gold predicate without a prediction has all its arguments missed; one that is predicted but not in the gold data
    does not count, as in srl-eval.pl. Every predicate that has a column is scored, also the auxiliaries (be.03,
    have.01, do.01, get.03 of PropBank's newer releases): they have few arguments or none, and what is predicted for
    them beyond that is in excess. `predicate_f1` is that of the predicates which the network finds by itself.
    """
    verbal, every, predicates = Counts(), Counts(), Counts()
    for sentence, roles in zip(examples, predictions, strict=True):
        labelled = {proposition.predicate: proposition.spans for proposition in roles.propositions}
        for gold in sentence.known():
            expected, actual = arguments(gold.spans), arguments(labelled.get(gold.predicate, ()))
            every.add(expected, actual)
            if gold.verbal:
                verbal.add(expected, actual)
        predicates.add((gold.predicate for gold in sentence.known()), roles.found)
    scores: dict[str, float] = {}
    for suffix, counts in (("", verbal), ("_all", every)):
        figures = zip(("precision", "recall", "f1"), counts.percentages(), strict=True)
        scores |= {f"{name}{suffix}": figure for name, figure in figures}
    return scores | {"predicate_f1": predicates.percentages()[2]}
