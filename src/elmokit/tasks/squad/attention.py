"""Attention between a passage and a question, and of a passage to itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

SELF = -1e9  # added to a token's self-similarity, so that it attends to others unless it is the only token
SIMILARITIES_PER_BLOCK = 1 << 24  # similarities per block, which bounds memory for passages of any length


class Trilinear(nn.Module):
    """Trilinear similarity, a_ij = w_q . q_j + w_hq . (h_i * q_j), as one matrix product.

    The term w_h . h_i of Seo et al. 2017 is left to the caller: a softmax over j is invariant to it.
    """

    def __init__(self, *, n_in: int) -> None:
        super().__init__()
        self.column = nn.Parameter(_uniform(n_in))  # w_q
        self.pair = nn.Parameter(torch.full((n_in,), 1 / math.sqrt(n_in)))  # w_hq, initialized to a scaled dot product

    def forward(self, h: Tensor, q: Tensor, mask: Tensor) -> Tensor:
        """h: (B, P, W), q: (B, Q, W) with mask (B, Q). Returns (B, P, Q), -inf at padding of the question."""
        column = (q @ self.column).masked_fill(~mask, -torch.inf)  # (B, Q): the cheapest place to mask
        return torch.baddbmm(column.unsqueeze(1), h * self.pair, q.transpose(1, 2))


class BiAttention(nn.Module):
    """Bidirectional attention between passage and question.

        c_i = sum_j softmax_j(a_ij) q_j;   q_c = sum_i softmax_i(max_j a_ij) h_i;   [h_i; c_i; h_i * c_i; q_c * c_i]

    As Clark & Gardner 2018, after Seo et al. 2017. Padding on either side has no effect.
    """

    def __init__(self, *, n_in: int) -> None:
        super().__init__()
        self.row = nn.Parameter(_uniform(n_in))  # w_h
        self.similarity = Trilinear(n_in=n_in)

    def forward(self, h: Tensor, h_mask: Tensor, q: Tensor, q_mask: Tensor) -> Tensor:
        """Passage h: (B, P, W), question q: (B, Q, W). Returns (B, P, 4W)."""
        a = self.similarity(h, q, q_mask)  # (B, P, Q)
        c = torch.softmax(a, dim=2) @ q  # (B, P, W)
        best = h @ self.row + a.amax(dim=2)  # (B, P)
        weights = torch.softmax(best.masked_fill(~h_mask, -torch.inf), dim=1)
        q_c = weights.unsqueeze(1) @ h  # (B, 1, W)
        return torch.cat((h, c, h * c, q_c * c), dim=2)


class SelfAttention(nn.Module):
    """Self-attention of the passage: [h_i; c_i; h_i * c_i], with c_i over all j except i.

    The only token of a passage attends to itself. Padding has no effect.
    """

    def __init__(self, *, n_in: int) -> None:
        super().__init__()
        self.similarity = Trilinear(n_in=n_in)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        """h: (B, P, W), mask: (B, P). Returns (B, P, 3W)."""
        n_batch, n_tokens, _ = h.shape
        rows = max(1, SIMILARITIES_PER_BLOCK // (n_batch * n_tokens))
        c = torch.cat([self._attend(h, mask, first, rows) for first in range(0, n_tokens, rows)], dim=1)
        return torch.cat((h, c, h * c), dim=2)

    def _attend(self, h: Tensor, mask: Tensor, first: int, n_rows: int) -> Tensor:
        """Attention vectors c of a block of rows, (B, n_rows or fewer, W)."""
        a = self.similarity(h[:, first : first + n_rows], h, mask)  # (B, n_rows, P)
        a.diagonal(offset=first, dim1=1, dim2=2).add_(SELF)
        return torch.softmax(a, dim=2) @ h


def _uniform(n_in: int) -> Tensor:
    """Variance-preserving initial weights, (n_in,)."""
    bound = math.sqrt(3 / n_in)
    return torch.empty(n_in).uniform_(-bound, bound)


def best_answer_spans(start: Tensor, end: Tensor, max_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """The span i..j of at most max_tokens tokens with the highest start_i + end_j; the first on a tie.

    start, end: (B, P) log-probabilities, -inf at padding. Returns i (B,), j (B,) and their sum (B,).
    """
    n_tokens = start.shape[1]
    width = min(max_tokens, n_tokens)
    ends = nn.functional.pad(end, (0, width - 1), value=-torch.inf).unfold(1, width, 1)  # (B, P, width): end_i+k
    best, index = (start.unsqueeze(2) + ends).flatten(1).max(dim=1)
    first = index // width
    return first, first + index % width, best
