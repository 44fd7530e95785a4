"""Word sense disambiguation: the complete run of `elmo wsd`, scored like the official scorer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from elmokit.analysis.senses.sense_corpus import POS, Instance, SenseCorpus
from elmokit.analysis.senses.sense_vectors import SenseInventory, instance_vectors, nearest_senses, sense_vectors
from elmokit.analysis.senses.wordnet import WordNet
from elmokit.analysis.shared.layers import Meter, View
from elmokit.embed.elmo import Elmo
from elmokit.embed.embed_files import Progress

FIRST_SENSE = "first sense"
DEV = "semeval2007"  # the development set of the literature, excluded from the combined scores
ALL, TEST = "ALL", "test"

Answers = list[str | None]  # one per instance, or None


@dataclass(frozen=True)
class Score:
    """Counts and percentages of the official scorer: an answer is correct if it is one of the gold keys."""

    right: int
    answered: int
    instances: int

    @property
    def precision(self) -> float:
        """Precision: correct answers among all answers."""
        return 100 * self.right / self.answered if self.answered else 0.0

    @property
    def recall(self) -> float:
        """Recall: correct answers among all instances."""
        return 100 * self.right / self.instances if self.instances else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        # 2PR / (P + R), simplified
        return 200 * self.right / (self.answered + self.instances) if self.instances else 0.0


def score(instances: Sequence[Instance], answers: Sequence[str | None]) -> Score:
    """Score the answers to some instances."""
    right = sum(answer in instance.keys for instance, answer in zip(instances, answers, strict=True))
    return Score(right, sum(answer is not None for answer in answers), len(instances))


@dataclass(frozen=True)
class SenseReport:
    """Scores of the first-sense baseline and of every view, for each data set and part of speech."""

    scores: dict[str, dict[str, dict[str, Score]]]  # by system, then data set, then ALL or part of speech
    instances: int  # in all data sets
    backed_off: int  # of these: lemma not in the training text
    unanswered: int  # lemma not in WordNet either
    not_in_wordnet: int  # no gold key in WordNet
    training_instances: int
    training_senses: int  # averaged: those of the lemmas in the data sets
    tokens: int  # embedded
    tokens_per_second: float

    @property
    def main(self) -> str:
        """The main data set: the combined test sets of the literature, else all sets combined, else the only one."""
        return list(self.scores[FIRST_SENSE])[-1]

    def to_json(self) -> dict[str, Any]:
        """Values for a results file."""
        scores = {
            system: {name: {pos: _score_json(s) for pos, s in parts.items()} for name, parts in sets.items()}
            for system, sets in self.scores.items()
        }
        return {"main": self.main, **asdict(self), "scores": scores}


def _score_json(score: Score) -> dict[str, float]:
    return {"f1": score.f1, "precision": score.precision, "recall": score.recall, "instances": score.instances}


def evaluate_senses(
    elmo: Elmo,
    training: SenseCorpus,
    sets: Sequence[SenseCorpus],
    wordnet: WordNet,
    views: Sequence[View],
    progress: Callable[[Progress], None] | None = None,
) -> SenseReport:
    """1-nearest-neighbor disambiguation: average the vectors of each training sense, and assign the nearest.

    Lemmas unseen in training get WordNet's first sense, as in the baseline.
    """
    asked = [instance for corpus in sets for instance in corpus.instances]
    first: Answers = [wordnet.first(instance.lemma, instance.pos) for instance in asked]
    senses = SenseInventory.of(training.instances, asked, wordnet)
    meter = Meter(progress, sum(len(tokens) for corpus in (training, *sets) for tokens in corpus.sentences))
    known = sense_vectors(elmo, training, senses, views, meter)
    vectors = np.concatenate([instance_vectors(elmo, corpus, meter) for corpus in sets], axis=1)
    systems = {FIRST_SENSE: first}
    for view, spread in zip(views, known.spread, strict=True):
        nearest = nearest_senses(view.of(vectors) / spread, asked, view.of(known.means) / spread, senses)
        systems[view.name] = [near or back_off for near, back_off in zip(nearest, first, strict=True)]
    groups = _groups(sets)
    return SenseReport(
        scores={name: _table(asked, answers, groups) for name, answers in systems.items()},
        instances=len(asked),
        backed_off=sum((instance.lemma, instance.pos) not in senses.ranges for instance in asked),
        unanswered=systems[views[0].name].count(None),
        not_in_wordnet=sum(_unknown(instance, wordnet) for instance in asked),
        training_instances=len(training.instances),
        training_senses=len(senses.keys),
        tokens=meter.tokens,
        tokens_per_second=meter.tokens_per_second,
    )


def _groups(sets: Sequence[SenseCorpus]) -> dict[str, list[int]]:
    """Instance indices of every data set, of all combined, and of all but the development set."""
    groups: dict[str, list[int]] = {}
    start = 0
    for corpus in sets:
        groups[corpus.name] = list(range(start, start + len(corpus.instances)))
        start += len(corpus.instances)
    if len(sets) > 1:
        groups[ALL] = list(range(start))
        if DEV in groups:
            development = set(groups[DEV])
            groups[TEST] = [k for k in groups[ALL] if k not in development]
    return groups


def _table(asked: Sequence[Instance], answers: Answers, groups: dict[str, list[int]]) -> dict[str, dict[str, Score]]:
    table: dict[str, dict[str, Score]] = {}
    for name, members in groups.items():
        parts = {ALL: members} | {pos: [k for k in members if asked[k].pos == pos] for pos in POS}
        table[name] = {
            part: score([asked[k] for k in chosen], [answers[k] for k in chosen])
            for part, chosen in parts.items()
            if chosen
        }
    return table


def _unknown(instance: Instance, wordnet: WordNet) -> bool:
    known = wordnet.senses.get((instance.lemma, instance.pos), ())
    return not any(key in known for key in instance.keys)
