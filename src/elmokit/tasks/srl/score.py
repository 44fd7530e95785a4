"""Precision, recall and F1 over arguments, as in srl-eval.pl of CoNLL-2004 and 2005."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmokit.tasks.shared.tags import Span
from elmokit.tasks.srl.proposition import Roles, SrlSentence


@dataclass(frozen=True)
class Argument:
    """A label and its (start, end) pieces: more than one if C- spans continue it."""

    label: str
    pieces: tuple[tuple[int, int], ...]


def arguments(spans: Iterable[Span]) -> list[Argument]:
    """The arguments of a proposition, excluding the verb, by the rules of srl-eval.pl.

    A span C-X continues the last X before it, or is a new X if there is none. R-X is an ordinary label. V and C-V are
    not arguments.
    """
    found: list[tuple[str, list[tuple[int, int]]]] = []
    last: dict[str, int] = {}  # label -> index of the last such argument
    for start, end, label in sorted(spans):
        base = label.removeprefix("C-")
        if base != label and base in last:
            found[last[base]][1].append((start, end))
            continue
        last[base] = len(found)
        found.append((base, [(start, end)]))
    return [Argument(label, tuple(pieces)) for label, pieces in found if label != "V"]


@dataclass
class RoleCounts:
    """Counts of correct, excess and missed items."""

    right: int = 0
    excess: int = 0
    missed: int = 0

    def add(self, gold: Iterable[object], predicted: Iterable[object]) -> None:
        """Compare gold with predicted items, each without duplicates."""
        expected, actual = set(gold), set(predicted)
        self.right += len(expected & actual)
        self.excess += len(actual - expected)
        self.missed += len(expected - actual)

    def percentages(self) -> tuple[float, float, float]:
        """Precision, recall and F1; 0 for a zero denominator, as in srl-eval.pl."""
        precision = 100 * self.right / max(1, self.right + self.excess)
        recall = 100 * self.right / max(1, self.right + self.missed)
        both = 2 * self.right + self.excess + self.missed
        return precision, recall, 200 * self.right / max(1, both)


def score_roles(examples: Sequence[SrlSentence], predictions: Sequence[Roles]) -> dict[str, float]:
    """Argument F1 with given predicates: for verbs (the main metric), and for all, including nouns and adjectives.

    A gold predicate without a prediction has all its arguments missed; a predicted predicate that is not in the gold
    data does not count, as in srl-eval.pl. Every predicate with a column is scored, including auxiliaries (be.03,
    have.01, do.01, get.03 of newer PropBank releases): they have few arguments or none, and further predictions for
    them count as excess. `predicate_f1` is the F1 of predicate identification.
    """
    verbal, every, predicates = RoleCounts(), RoleCounts(), RoleCounts()
    for sentence, roles in zip(examples, predictions, strict=True):
        labeled = {proposition.predicate: proposition.spans for proposition in roles.propositions}
        for gold in sentence.known():
            expected, actual = arguments(gold.spans), arguments(labeled.get(gold.predicate, ()))
            every.add(expected, actual)
            if gold.verbal:
                verbal.add(expected, actual)
        predicates.add((gold.predicate for gold in sentence.known()), roles.found)
    scores: dict[str, float] = {}
    for suffix, counts in (("", verbal), ("_all", every)):
        figures = zip(("precision", "recall", "f1"), counts.percentages(), strict=True)
        scores |= {f"{name}{suffix}": figure for name, figure in figures}
    return scores | {"predicate_f1": predicates.percentages()[2]}
