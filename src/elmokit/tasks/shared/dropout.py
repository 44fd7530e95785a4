"""Variational dropout: one mask per sequence."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class VariationalDropout(nn.Module):
    """Variational dropout: one mask per sequence, shared by all time steps (Gal and Ghahramani 2016)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, n) to (B, T, n)."""
        return self.together(x)[0]

    def together(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Apply one mask per row to several tensors (B, T, n), whose T may differ."""
        if not self.training or self.p == 0:
            return parts
        n_rows, _, size = parts[0].shape
        keep = functional.dropout(parts[0].new_ones(n_rows, 1, size), self.p)
        return tuple(part * keep for part in parts)
