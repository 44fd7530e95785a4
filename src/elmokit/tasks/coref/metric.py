"""MUC, B-cubed and CEAF-phi4 as the scorer of CoNLL-2012 counts them (Pradhan et al. 2014), and their average."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import MissingExtraError
from elmokit.tasks.coref.document import Span

Clusters = Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Counts:
    """Numerators and denominators of recall and precision. Those of a corpus are the sums over its documents."""

    recall_part: float = 0.0
    recall_whole: float = 0.0
    precision_part: float = 0.0
    precision_whole: float = 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.recall_part + other.recall_part, self.recall_whole + other.recall_whole,
            self.precision_part + other.precision_part, self.precision_whole + other.precision_whole,
        )  # fmt: skip

    @property
    def recall(self) -> float:
        """Between 0 and 1; 0 where there is nothing to find."""
        return self.recall_part / self.recall_whole if self.recall_whole else 0.0

    @property
    def precision(self) -> float:
        """Between 0 and 1; 0 where nothing was found."""
        return self.precision_part / self.precision_whole if self.precision_whole else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both, and 0 where both are."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


@dataclass(frozen=True)
class DocumentCounts:
    """How the clusters of one document agree with its key."""

    mentions: Counts
    muc: Counts
    b_cubed: Counts
    ceaf: Counts


def compare(key: Clusters, response: Clusters) -> DocumentCounts:
    """Count for one document; clusters of one mention count in both, as in the official scorer.

    A mention that a response repeats is taken once, where it stands first. Where it is the key that has a mention in
    two clusters, it stands for the second in MUC and B-cubed.
    """
    key_sets = [set(cluster) for cluster in key if cluster]
    response_sets = _without_repeats(response)
    owner = {mention: k for k, cluster in enumerate(key_sets) for mention in cluster}
    found_in = {mention: r for r, cluster in enumerate(response_sets) for mention in cluster}
    overlap = np.zeros((len(key_sets), len(response_sets)), dtype=np.int64)  # mentions that k and r share
    owned = np.zeros_like(overlap)  # those of them that stand for k
    for k, cluster in enumerate(key_sets):
        for mention in cluster & found_in.keys():
            overlap[k, found_in[mention]] += 1
            owned[k, found_in[mention]] += owner[mention] == k
    key_sizes = np.array([len(cluster) for cluster in key_sets], dtype=np.int64)
    response_sizes = np.array([len(cluster) for cluster in response_sets], dtype=np.int64)
    n_key, n_response = float(key_sizes.sum()), float(response_sizes.sum())

    both = float(owned.sum())
    links = float(np.maximum(owned - 1, 0).sum())
    shared = (owned * overlap).astype(np.float64)
    similarity = _best_alignment(2 * overlap / (key_sizes[:, None] + response_sizes[None, :]))
    return DocumentCounts(
        mentions=Counts(both, len(owner), both, n_response),
        muc=Counts(links, n_key - len(key_sets), links, n_response - len(response_sets)),
        b_cubed=Counts(
            float((shared / key_sizes[:, None]).sum()), n_key, float((shared / response_sizes).sum()), n_response
        ),
        ceaf=Counts(similarity, len(key_sets), similarity, len(response_sets)),
    )


def coref_scores(pairs: Iterable[tuple[Clusters, Clusters]]) -> dict[str, float]:
    """F1 of each metric in percent, over documents given as (key, response); `average` is that of the three metrics."""
    documents = [compare(key, response) for key, response in pairs]
    muc, b_cubed, ceaf, mentions = (
        sum((getattr(document, name) for document in documents), Counts())
        for name in ("muc", "b_cubed", "ceaf", "mentions")
    )
    return {
        "average": 100 * (muc.f1 + b_cubed.f1 + ceaf.f1) / 3,
        "muc": 100 * muc.f1,
        "b_cubed": 100 * b_cubed.f1,
        "ceaf": 100 * ceaf.f1,
        "mentions": 100 * mentions.f1,
        "mention_recall": 100 * mentions.recall,
    }


def _without_repeats(clusters: Clusters) -> list[set[Span]]:
    """Clusters with every mention in the first only, and none that is left empty."""
    seen: set[Span] = set()
    result = []
    for cluster in clusters:
        new = set(cluster) - seen
        seen |= new
        if new:
            result.append(new)
    return result


def _best_alignment(similarity: NDArray[np.float64]) -> float:
    """The sum of a one-to-one alignment of rows and columns that makes it largest."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise MissingExtraError("scoring coreference", "tasks") from None
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return float(similarity[rows, columns].sum())
