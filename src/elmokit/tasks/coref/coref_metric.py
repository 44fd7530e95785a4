"""MUC, B-cubed and CEAF-phi4 as in the CoNLL-2012 scorer (Pradhan et al. 2014), and their average."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import MissingExtraError
from elmokit.tasks.coref.document import MentionSpan

Clusters = Sequence[Sequence[MentionSpan]]


@dataclass(frozen=True)
class ClusterCounts:
    """Numerators and denominators of recall and precision, summed over the documents of a corpus."""

    recall_part: float = 0.0
    recall_whole: float = 0.0
    precision_part: float = 0.0
    precision_whole: float = 0.0

    def __add__(self, other: ClusterCounts) -> ClusterCounts:
        return ClusterCounts(
            self.recall_part + other.recall_part,
            self.recall_whole + other.recall_whole,
            self.precision_part + other.precision_part,
            self.precision_whole + other.precision_whole,
        )

    @property
    def recall(self) -> float:
        """Recall, 0 to 1; 0 without gold items."""
        return self.recall_part / self.recall_whole if self.recall_whole else 0.0

    @property
    def precision(self) -> float:
        """Precision, 0 to 1; 0 without predictions."""
        return self.precision_part / self.precision_whole if self.precision_whole else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


@dataclass(frozen=True)
class DocumentCounts:
    """Counts of the three metrics for one document."""

    mentions: ClusterCounts
    muc: ClusterCounts
    b_cubed: ClusterCounts
    ceaf: ClusterCounts


def cluster_counts(key: Clusters, response: Clusters) -> DocumentCounts:
    """Count for one document; singleton clusters count on both sides, as in the official scorer.

    A mention repeated in the response counts once, at its first occurrence. A mention in two clusters of the key
    belongs to the second in MUC and B-cubed.
    """
    key_sets = [set(cluster) for cluster in key if cluster]
    response_sets = _without_repeats(response)
    owner = {mention: k for k, cluster in enumerate(key_sets) for mention in cluster}
    found_in = {mention: r for r, cluster in enumerate(response_sets) for mention in cluster}
    overlap = np.zeros((len(key_sets), len(response_sets)), dtype=np.int64)  # mentions that k and r share
    owned = np.zeros_like(overlap)  # those of them that belong to k
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
        mentions=ClusterCounts(both, len(owner), both, n_response),
        muc=ClusterCounts(links, n_key - len(key_sets), links, n_response - len(response_sets)),
        b_cubed=ClusterCounts(
            float((shared / key_sizes[:, None]).sum()), n_key, float((shared / response_sizes).sum()), n_response
        ),
        ceaf=ClusterCounts(similarity, len(key_sets), similarity, len(response_sets)),
    )


def coref_scores(pairs: Iterable[tuple[Clusters, Clusters]]) -> dict[str, float]:
    """F1 of each metric in percent over (key, response) documents; `average` is the mean of the three."""
    documents = [cluster_counts(key, response) for key, response in pairs]
    muc, b_cubed, ceaf, mentions = (
        sum((getattr(document, name) for document in documents), ClusterCounts())
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


def _without_repeats(clusters: Clusters) -> list[set[MentionSpan]]:
    """Clusters with each mention kept in its first cluster only, without empty clusters."""
    seen: set[MentionSpan] = set()
    result = []
    for cluster in clusters:
        new = set(cluster) - seen
        seen |= new
        if new:
            result.append(new)
    return result


def _best_alignment(similarity: NDArray[np.float64]) -> float:
    """Value of the maximum-weight one-to-one alignment of rows and columns."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise MissingExtraError("scoring coreference", "tasks") from None
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return float(similarity[rows, columns].sum())
