"""Word senses: a sense is the mean of its occurrences, and a word has the nearest one (Peters et al. 2018, 5.3).

The vector of an instance of several tokens is their mean; an occurrence with several gold senses counts for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.layers import Meter, Moments, View, token_blocks
from elmokit.analysis.senses_data import Instance, SenseCorpus
from elmokit.analysis.wordnet import WordNet
from elmokit.embed.elmo import Elmo

TIE = 1e-5  # distances that differ by less are equal: sums of the same vectors in another order

Vectors = NDArray[np.floating]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class SenseInventory:
    """The senses that training text has of some lemmas, as numbers; those of a lemma follow each other."""

    keys: list[str]
    ranges: dict[tuple[str, str], range]  # of lemma and part of speech: which of the keys

    @classmethod
    def of(cls, training: Iterable[Instance], asked: Iterable[Instance], wordnet: WordNet) -> SenseInventory:
        """The seen senses of all lemmas that are asked about, in WordNet's order; strangers to WordNet come last."""
        wanted = {(instance.lemma, instance.pos): dict[str, None]() for instance in asked}
        for instance in training:
            if (seen := wanted.get((instance.lemma, instance.pos))) is not None:
                seen.update(dict.fromkeys(instance.keys))
        keys: list[str] = []
        ranges: dict[tuple[str, str], range] = {}
        for name, seen in wanted.items():
            if seen:
                known = [key for key in wordnet.senses.get(name, ()) if key in seen]
                ordered = [*known, *(key for key in seen if key not in known)]
                ranges[name] = range(len(keys), len(keys) + len(ordered))
                keys += ordered
        return cls(keys, ranges)


@dataclass(frozen=True)
class SenseVectors:
    """What the training text says of the senses."""

    means: Vectors  # (L + 1, S, 2D) over the occurrences of every sense
    spread: Vectors  # (V, 2D) standard deviation of every dimension of every view, over the tokens of all occurrences


def sense_vectors(
    elmo: Elmo, corpus: SenseCorpus, senses: SenseInventory, views: Sequence[View], meter: Meter
) -> SenseVectors:
    """The mean of every sense's occurrences, and how far these lie apart."""
    numbers = {key: number for number, key in enumerate(senses.keys)}
    pairs = [
        (instance, numbers[key])
        for instance in corpus.instances
        if (instance.lemma, instance.pos) in senses.ranges
        for key in instance.keys
    ]
    rows = np.array([row for _, row in pairs], dtype=np.int64)
    moments = Moments()
    occurrences = [instance for instance, _ in pairs]
    sums = _sum_up(elmo, corpus.sentences, occurrences, rows, len(senses.keys), meter, views, moments)
    counts = np.bincount(rows, minlength=len(senses.keys))
    return SenseVectors(sums / np.maximum(counts, 1)[:, None], moments.deviation)


def instance_vectors(elmo: Elmo, corpus: SenseCorpus, meter: Meter) -> Vectors:
    """(L + 1, I, 2D) of all instances."""
    rows = np.arange(len(corpus.instances))
    return _sum_up(elmo, corpus.sentences, corpus.instances, rows, len(rows), meter)


def _sum_up(
    elmo: Elmo, sentences: Sequence[Sequence[str]], instances: Sequence[Instance], rows: Places, n_rows: int,
    meter: Meter, views: Sequence[View] = (), moments: Moments | None = None,
) -> Vectors:  # fmt: skip
    """(L + 1, R, 2D): the vectors of instances, which stand in their order, added up in the rows that they belong to.

    Sums are in 64 bits: equal vectors then have equal means to far below TIE, however many they are.
    """
    first = np.array([instance.first for instance in instances], dtype=np.int64)
    lengths = np.array([instance.end for instance in instances], dtype=np.int64) - first
    # one entry for each token of each instance: its place, the row that it is added to, and its share
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.repeat(first, lengths) + within
    targets = torch.from_numpy(np.repeat(rows, lengths))
    shares = torch.from_numpy(1 / np.repeat(lengths, lengths))
    sums = torch.zeros(elmo.config.n_vectors, n_rows, elmo.config.vector_dim, dtype=torch.float64)
    done = start = 0  # tokens, and entries
    for block in token_blocks(elmo, sentences, meter):
        stop = int(np.searchsorted(places, done + block.shape[1]))  # instances end where sentences and blocks do
        chosen = block[:, places[start:stop] - done].astype(np.float64)
        if moments is not None:
            moments.add(np.stack([view.of(chosen) for view in views]))
        sums.index_add_(1, targets[start:stop], torch.from_numpy(chosen) * shares[start:stop, None])
        done, start = done + block.shape[1], stop
    return sums.numpy()


def nearest_senses(
    vectors: Vectors, instances: Sequence[Instance], means: Vectors, senses: SenseInventory
) -> list[str | None]:
    """The nearest seen sense for every instance; None where the lemma was never seen.

    vectors: (I, 2D) of the instances; means: (S, 2D) of the senses. Near is Euclidean, as the root of the mean square
    over the dimensions. Of equally near senses WordNet's first is taken.
    """
    ranges = [senses.ranges.get((instance.lemma, instance.pos), range(0)) for instance in instances]
    answers: list[str | None] = []
    for vector, candidates in zip(vectors, ranges, strict=True):
        if not candidates:
            answers.append(None)
            continue
        distances = np.sqrt(np.square(means[candidates.start : candidates.stop] - vector).mean(axis=1))
        answers.append(senses.keys[candidates[int(np.argmax(distances <= distances.min() + TIE))]])
    return answers
