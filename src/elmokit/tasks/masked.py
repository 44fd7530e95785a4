"""Softmax and pooling over the real tokens of padded sequences: what stands at padding never changes a result."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """scores: (..., T), mask: broadcast to it, true at tokens. Sums to 1 over them; all zero where there are none."""
    lowest = torch.finfo(scores.dtype).min  # not -inf, which makes NaN of a row without tokens, and of its gradient
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """x: (B, T, H), mask: (B, T) with a token in every row. Returns (B, H), the largest over the tokens."""
    return x.masked_fill(~mask.unsqueeze(-1), torch.finfo(x.dtype).min).amax(dim=1)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """x: (B, T, H), mask: (B, T) with a token in every row. Returns (B, H), the mean over the tokens."""
    keep = mask.unsqueeze(-1)
    return (x * keep).sum(dim=1) / keep.sum(dim=1)
