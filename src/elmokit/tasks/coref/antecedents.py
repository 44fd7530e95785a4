"""Antecedent scoring and its loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmokit.tasks.coref.feed_forward import score_layers

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # lower bounds of the distance buckets, in spans
N_SPEAKER_CASES = 3  # unknown, same, different
SPANS_PER_BLOCK = 512  # spans per block, so that memory is not quadratic in the document length


@dataclass(frozen=True)
class Antecedents:
    """Up to K candidates for each of M spans, and their scores. Column 0 is "no antecedent", with a score of 0."""

    index: Tensor  # (M, K) indices of earlier spans; arbitrary where there are fewer
    scores: Tensor  # (M, 1 + K), -inf where there are fewer


class AntecedentScorer(nn.Module):
    """Coarse-to-fine antecedent scoring: a cheap bilinear pass over all pairs, a full pass over the K best.

        score(i, j) = m_i + m_j + (Q g_i)(R g_j) + v relu(V relu(W [g_i; g_j; P g_i * P g_j; distance; speaker; genre]))

    The full term follows Lee et al. (2017), except for the projection P before the product, which makes the cost
    independent of the span dimension; the cheap term follows Lee et al. (2018), at low rank.
    """

    def __init__(
        self, *, span_dim: int, n_hidden: int, n_feature: int, n_genres: int, max_antecedents: int, dropout: float
    ) -> None:
        super().__init__()
        self.max_antecedents = max_antecedents
        self.query = nn.Linear(span_dim, n_hidden, bias=False)
        self.key = nn.Linear(span_dim, n_hidden, bias=False)
        self.project = nn.Linear(span_dim, n_hidden, bias=False)
        self.of_span = nn.Linear(span_dim, n_hidden)
        self.of_antecedent = nn.Linear(span_dim, n_hidden, bias=False)
        self.of_product = nn.Linear(n_hidden, n_hidden, bias=False)
        self.of_features = nn.Linear(n_feature, 3 * n_hidden, bias=False)
        self.distances = nn.Embedding(len(DISTANCES), n_feature)
        self.speakers = nn.Embedding(N_SPEAKER_CASES, n_feature)
        self.genres = nn.Embedding(1 + n_genres, n_feature, padding_idx=0)  # 0: unknown
        self.rest = score_layers(n_hidden, dropout)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("boundaries", torch.tensor(DISTANCES[1:]), persistent=False)
        self.boundaries: Tensor

    def forward(self, spans: Tensor, mention_scores: Tensor, speakers: Tensor, genre: Tensor) -> Antecedents:
        """spans: (M, G) in order of the text; mention_scores: (M,); speakers: (M,), 0 unknown; genre: ()."""
        query, key, product = self.query(spans), self.key(spans), self.project(spans)  # (M, H)
        first, second = self.of_span(spans), self.of_antecedent(spans)
        by_distance, by_speaker, by_genre = self._features(genre)
        index = self._nearest(query.detach(), key.detach(), mention_scores.detach())  # (M, K)
        position = torch.arange(len(spans), device=spans.device)
        scores = []
        for start in range(0, len(spans), SPANS_PER_BLOCK):
            rows = slice(start, start + SPANS_PER_BLOCK)
            those = index[rows]  # (B, K)
            distance = position[rows].unsqueeze(1) - those
            known = (speakers[rows].unsqueeze(1) > 0) & (speakers[those] > 0)
            case = torch.where(known, 1 + (speakers[rows].unsqueeze(1) != speakers[those]).long(), 0)
            hidden = (
                (first[rows] + by_genre).unsqueeze(1)
                + F.embedding(those, second)
                + self.of_product(product[rows].unsqueeze(1) * F.embedding(those, product))
                + F.embedding(torch.bucketize(distance, self.boundaries, right=True), by_distance)
                + F.embedding(case, by_speaker)
            )  # (B, K, H)
            cheap = torch.einsum("bh,bkh->bk", query[rows], F.embedding(those, key))
            pair = mention_scores[rows].unsqueeze(1) + mention_scores[those] + cheap + self.rest(hidden).squeeze(2)
            scores.append(F.pad(pair.masked_fill(distance <= 0, -torch.inf), (1, 0)))
        return Antecedents(index, torch.cat(scores))

    def _features(self, genre: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Contributions to the hidden layer of each distance (D, H), speaker relation (3, H) and the genre (H,)."""
        weights = self.of_features.weight.chunk(3)
        tables = (self.distances.weight, self.speakers.weight, self.genres(genre))
        by_distance, by_speaker, by_genre = (
            F.linear(self.dropout(table), weight) for table, weight in zip(tables, weights, strict=True)
        )
        return by_distance, by_speaker, by_genre

    @torch.no_grad()
    def _nearest(self, query: Tensor, key: Tensor, mention_scores: Tensor) -> Tensor:
        """The K best preceding spans (M, K) by the cheap score, filled up with later spans where there are fewer."""
        n_spans = len(query)
        position = torch.arange(n_spans, device=query.device)
        n_best = min(self.max_antecedents, n_spans - 1)
        best = []
        for start in range(0, n_spans, SPANS_PER_BLOCK):
            rows = slice(start, start + SPANS_PER_BLOCK)
            scores = query[rows] @ key.T + mention_scores  # (B, M)
            scores.masked_fill_(position >= position[rows].unsqueeze(1), -torch.inf)
            best.append(scores.topk(n_best, dim=1).indices)
        return torch.cat(best)


def antecedent_loss(antecedents: Antecedents, clusters: Tensor) -> Tensor:
    """Mean negative marginal log-likelihood of the gold antecedents, or of "no antecedent" if there are none.

    clusters: (M,) gold cluster of each span, -1 for spans that are not gold mentions.
    """
    scores = antecedents.scores
    right = (clusters[antecedents.index] == clusters.unsqueeze(1)) & (clusters >= 0).unsqueeze(1)
    right = right & torch.isfinite(scores[:, 1:])
    right = torch.cat((~right.any(dim=1, keepdim=True), right), dim=1)  # (M, 1 + K)
    return (scores.logsumexp(dim=1) - scores.masked_fill(~right, -torch.inf).logsumexp(dim=1)).mean()
