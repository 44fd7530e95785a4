"""Masked softmax and pooling over padded sequences; values at padding never affect a result."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over unmasked positions; scores: (..., T), mask: broadcastable. All zero in rows without tokens."""
    lowest = torch.finfo(scores.dtype).min  # not -inf, which gives NaN (also in the gradient) for a row without tokens
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """Max-pooling over tokens; x: (B, T, H), mask: (B, T) with a token in every row. Returns (B, H)."""
    return x.masked_fill(~mask.unsqueeze(-1), torch.finfo(x.dtype).min).amax(dim=1)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean-pooling over tokens; x: (B, T, H), mask: (B, T) with a token in every row. Returns (B, H)."""
    keep = mask.unsqueeze(-1)
    return (x * keep).sum(dim=1) / keep.sum(dim=1)
