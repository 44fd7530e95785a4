"""Highway layer (Srivastava et al. 2015)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.nn.matmul import Matmul


class Highway(nn.Module):
    """Highway layer: y = g relu(x W_t + b_t) + (1 - g) x, with g = sigmoid(x W_g + b_g).

    As in the published files, the gate weighs the transform, although it is called "carry" there.
    """

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.gate = Matmul(n_in=size, n_out=size)
        self.gate_bias = nn.Parameter(torch.empty(size))
        self.transform = Matmul(n_in=size, n_out=size)
        self.transform_bias = nn.Parameter(torch.empty(size))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer: (n, F) to (n, F)."""
        g = torch.sigmoid(self.gate(x, self.gate_bias))
        t = functional.relu(self.transform(x, self.transform_bias))
        return torch.lerp(x, t, g)
