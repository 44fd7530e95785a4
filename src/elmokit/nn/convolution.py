"""Convolution over the characters of a word, max-pooled over all positions (Kim et al. 2016)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Convolution(nn.Module):
    """y_f = max over p of (sum over k of x_{p+k} W_kf) + b_f, for all filters f of one width."""

    def __init__(self, *, width: int, channels: int, count: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(width * channels, count))
        self.bias = nn.Parameter(torch.empty(count))

    def forward(self, x: Tensor) -> Tensor:
        """(n, positions, e) character vectors to (n, count)."""
        filters = self.weight.view(self.width, x.shape[2], -1).permute(2, 1, 0)  # (count, e, width)
        return functional.conv1d(x.transpose(1, 2), filters).amax(dim=2) + self.bias
