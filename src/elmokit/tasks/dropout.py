"""Dropout that treats all tokens of a sequence alike."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class VariationalDropout(nn.Module):
    """One mask a sequence: what is dropped at one token is dropped at all (Gal and Ghahramani 2016)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, n) to (B, T, n)."""
        if not self.training or self.p == 0:
            return x
        return x * functional.dropout(x.new_ones(x.shape[0], 1, x.shape[2]), self.p)  # (B, 1, n)
