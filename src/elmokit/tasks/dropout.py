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
        return self.together(x)[0]

    def together(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Several of (B, T, n), each T its own: of a row, the same is dropped in all of them."""
        if not self.training or self.p == 0:
            return parts
        n_rows, _, size = parts[0].shape
        keep = functional.dropout(parts[0].new_ones(n_rows, 1, size), self.p)
        return tuple(part * keep for part in parts)
