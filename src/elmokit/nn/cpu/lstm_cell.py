"""Pointwise half of an LSTM step, in place, for training and inference."""

from __future__ import annotations

import torch
from torch import Tensor


def activate_(gates: Tensor) -> Tensor:
    """Pre-activations (..., 4C) to activations, in place.

    tanh(x) = 2 sigmoid(2x) - 1, because torch's sigmoid is several times faster than its tanh: one call does all four
    gates, and the block of j is returned as (j + 1) / 2. j + j instead of 2 j: a Python scalar has more overhead.
    """
    j = gates.chunk(4, dim=-1)[3]
    j.add_(j)
    return gates.sigmoid_()


def cell_step(gates: Tensor, cell: Tensor, clip: float | None) -> Tensor:
    """One step: activations (..., 4C); `cell` (..., C) changes from c' to c, in place. Returns o tanh(c), (..., C)."""
    i, f, o, j = gates.chunk(4, dim=-1)
    cell.mul_(f).addcmul_(i, j, value=2).sub_(i)  # f c' + i (2j - 1)
    if clip is not None:
        cell.clamp_(-clip, clip)
    hidden = torch.add(cell, cell).sigmoid_().mul_(o)
    return hidden.add_(hidden).sub_(o)  # o (2 sigmoid(2c) - 1)
