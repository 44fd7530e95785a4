"""Candidate spans: representation, mention scores and pruning."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmokit.tasks.coref.feed_forward import score_layers

# Rows of the grid scored at a time: large enough for fast matrix products, small enough to bound memory for documents
# of any length.
FIRST_TOKENS_PER_BLOCK = 2048


class SpanScorer(nn.Module):
    """Span representations and mention scores (Lee et al. 2017).

        head = sum over t of softmax(w h_t) x_t;  g = [h_start; h_end; head; width];  score = v relu(V relu(W g))

    Candidates form a grid (N, W): row t, column w is the span of w + 1 tokens from t. The vectors g of the grid are
    never materialized: W g is a sum of four products, of which the boundary terms and the head term are computed once
    per token (attention is linear, so it averages the products) and the width term once per width.
    """

    def __init__(
        self, *, n_context: int, n_words: int, n_hidden: int, n_feature: int, max_width: int, dropout: float
    ) -> None:
        super().__init__()
        self.max_width = max_width
        self.parts = [n_context, n_context, n_words, n_feature]
        self.attention = nn.Linear(n_context, 1, bias=False)
        self.widths = nn.Embedding(max_width, n_feature)
        self.first = nn.Linear(sum(self.parts), n_hidden)
        self.rest = score_layers(n_hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    @property
    def span_dim(self) -> int:
        """Dimension G of a span vector."""
        return sum(self.parts)

    def forward(self, context: Tensor, words: Tensor, sentence: Tensor) -> Tensor:
        """Scores (N, W) of all spans, -inf for those that leave their sentence.

        context: (N, C) per token; words: (N, E) per token; sentence: (N,) sentence index of each token.
        """
        start_weight, end_weight, head_weight, width_weight = torch.split(self.first.weight, self.parts, dim=1)
        start = F.linear(context, start_weight)  # (N, H)
        width = F.linear(self.dropout(self.widths.weight), width_weight, self.first.bias)  # (W, H)
        reach = self.max_width - 1
        end = F.pad(F.linear(context, end_weight), (0, 0, 0, reach))  # (N + W - 1, H)
        head = F.pad(F.linear(words, head_weight), (0, 0, 0, reach))
        attention = F.pad(self.attention(context).squeeze(1), (0, reach))  # (N + W - 1,)
        sentence_of_last = F.pad(sentence, (0, reach), value=-1).unfold(0, self.max_width, 1)  # (N, W)

        scores = []
        for first in range(0, len(context), FIRST_TOKENS_PER_BLOCK):
            rows = slice(first, first + FIRST_TOKENS_PER_BLOCK)
            tokens = slice(first, first + FIRST_TOKENS_PER_BLOCK + reach)
            weights = self._weights(attention[tokens])  # (B, W, W)
            hidden = start[rows].unsqueeze(1) + width + self._windows(end[tokens])  # (B, W, H)
            scores.append(self.rest(torch.baddbmm(hidden, weights, self._windows(head[tokens]))).squeeze(2))
        return torch.cat(scores).masked_fill(sentence_of_last != sentence.unsqueeze(1), -torch.inf)

    def represent(self, context: Tensor, words: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
        """Span vectors (M, G), from first and last tokens."""
        index = starts.unsqueeze(1) + torch.arange(self.max_width, device=starts.device)  # (M, W)
        inside = index <= ends.unsqueeze(1)
        index = torch.where(inside, index, starts.unsqueeze(1))
        attention = self.attention(context).squeeze(1)[index].masked_fill(~inside, -torch.inf)
        head = torch.einsum("mw,mwe->me", attention.softmax(dim=1), words[index])
        width = self.dropout(self.widths.weight)[ends - starts]
        return torch.cat((context[starts], context[ends], head, width), dim=1)

    def _windows(self, x: Tensor) -> Tensor:
        """(B + W - 1, H) to (B, W, H): sliding windows of W rows."""
        return x.unfold(0, self.max_width, 1).transpose(1, 2)

    def _weights(self, attention: Tensor) -> Tensor:
        """Head attention (B, W, W) of each span (start, width) over its tokens, from logits (B + W - 1,)."""
        logits = attention.unfold(0, self.max_width, 1).unsqueeze(1)  # (B, 1, W)
        outside = torch.ones(self.max_width, self.max_width, dtype=torch.bool, device=logits.device).triu(1)
        return logits.masked_fill(outside, -torch.inf).softmax(dim=2)


def mention_loss(scores: Tensor, is_mention: Tensor) -> Tensor:
    """Binary cross-entropy of the mention scores, summed over candidates, ().

    scores: (N, W), -inf where there is no candidate; is_mention: (N, W).
    """
    there = torch.isfinite(scores)
    return F.binary_cross_entropy_with_logits(scores[there], is_mention[there].to(scores.dtype), reduction="sum")


def keep_best_spans(scores: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """First and last tokens (M,) of the best non-crossing spans of a grid (N, W), at most `limit`, in text order.

    Greedy from the best down: a span that partially overlaps a better one is dropped. Nested spans are allowed.
    """
    flat = scores.detach().flatten()
    order = torch.argsort(flat, descending=True, stable=True)[: int(torch.isfinite(flat).sum())]
    starts = order // scores.shape[1]
    ends = starts + order % scores.shape[1]
    kept = _without_crossings(starts.tolist(), ends.tolist(), len(scores), limit)
    spans = torch.tensor(sorted(kept), dtype=torch.long, device=scores.device).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


def _without_crossings(starts: Sequence[int], ends: Sequence[int], n_tokens: int, limit: int) -> list[tuple[int, int]]:
    """Greedily select the first `limit` spans that cross no span selected before."""
    last_end = [-1] * n_tokens  # of the selected spans, by start
    first_start = [n_tokens] * n_tokens  # by end
    kept: list[tuple[int, int]] = []
    for start, end in zip(starts, ends, strict=True):
        if len(kept) == limit:
            break
        if max(last_end[start + 1 : end + 1], default=-1) > end or min(first_start[start:end], default=end) < start:
            continue
        kept.append((start, end))
        last_end[start] = max(last_end[start], end)
        first_start[end] = min(first_start[end], start)
    return kept
