"""Matrix product with a trainable matrix."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Matmul(nn.Module):
    """y = x W + b, with b from the caller and W stored as (K, N): the published layout, and faster for few rows."""

    def __init__(self, *, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(..., K) to (..., N), plus bias (N,)."""
        return x @ self.weight if bias is None else x @ self.weight + bias
