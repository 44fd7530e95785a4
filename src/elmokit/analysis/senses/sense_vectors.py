"""Sense vectors: the mean over the occurrences of a sense, for 1-nearest-neighbor search (Peters et al. 2018, 5.3).

The vector of a multi-token instance is the mean over its tokens; an occurrence with several gold senses counts for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.senses.sense_corpus import Instance, SenseCorpus
from elmokit.analysis.senses.wordnet import WordNet
from elmokit.analysis.shared.layers import Meter, Moments, View, token_blocks
from elmokit.embed.elmo import Elmo

TIE = 1e-5  # tolerance for equal distances, which may differ by summation order

Vectors = NDArray[np.floating]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class SenseInventory:
    """Index of the training senses of some lemmas; senses of a lemma are contiguous."""

    keys: list[str]
    ranges: dict[tuple[str, str], range]  # by lemma and part of speech: range of keys

    @classmethod
    def of(cls, training: Iterable[Instance], asked: Iterable[Instance], wordnet: WordNet) -> SenseInventory:
        """Seen senses of the requested lemmas, in WordNet's order; senses not in WordNet come last."""
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
    """Sense statistics of the training text."""

    means: Vectors  # (L + 1, S, 2D) over the occurrences of every sense
    spread: Vectors  # (V, 2D) standard deviation of every dimension of every view, over the tokens of all occurrences


def sense_vectors(
    elmo: Elmo, corpus: SenseCorpus, senses: SenseInventory, views: Sequence[View], meter: Meter
) -> SenseVectors:
    """Mean vector of every sense, and the standard deviation per dimension."""
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
    """Vectors of all instances, (L + 1, I, 2D)."""
    rows = np.arange(len(corpus.instances))
    return _sum_up(elmo, corpus.sentences, corpus.instances, rows, len(rows), meter)


def _sum_up(
    elmo: Elmo,
    sentences: Sequence[Sequence[str]],
    instances: Sequence[Instance],
    rows: Places,
    n_rows: int,
    meter: Meter,
    views: Sequence[View] = (),
    moments: Moments | None = None,
) -> Vectors:
    """Sum the vectors of instances, given in corpus order, into their rows: (L + 1, R, 2D).

    Sums are in float64, so that means of equal vectors are equal to far below TIE.
    """
    first = np.array([instance.first for instance in instances], dtype=np.int64)
    lengths = np.array([instance.end for instance in instances], dtype=np.int64) - first
    # one entry per token of each instance: position, target row and weight
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
    """The nearest seen sense of every instance; None if the lemma is unseen.

    vectors: (I, 2D) of the instances; means: (S, 2D) of the senses. The distance is Euclidean (root mean square over
    dimensions). Ties are resolved in WordNet's order.
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
