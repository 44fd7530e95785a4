"""LSTM layer with projection (Sak et al. 2014) and clipping of cell and output, which torch's LSTM lacks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmokit.config import LstmConfig
from elmokit.nn.matmul import Matmul
from elmokit.nn.packing import Packing
from elmokit.nn.state import LstmState


class LstmLayer(nn.Module):
    """One direction of one layer, with the clips of the published biLM.

        i, f, o = sigmoid(x W + m' U + b);  j = tanh(x W + m' U + b)
        c = clip(f c' + i j, cell_clip);    m = clip((o tanh(c)) P, proj_clip)

    The four blocks of W, U and b stand in the order i, f, o, j. b holds the constant 1 that the published code adds to
    the forget gate.
    """

    def __init__(self, *, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.input = Matmul(n_in=config.projection_dim, n_out=4 * config.dim)  # W
        self.state = Matmul(n_in=config.projection_dim, n_out=4 * config.dim)  # U
        self.bias = nn.Parameter(torch.empty(4 * config.dim))  # b
        self.projection: Matmul | None = None  # P
        if config.has_projection:
            self.projection = Matmul(n_in=config.dim, n_out=config.projection_dim)

    def forward(self, x: Tensor, packing: Packing, state: LstmState) -> tuple[Tensor, LstmState]:
        """Run over packed sentences: x (N, D) to m (N, D), and the state after every sentence's last token."""
        with torch.autocast(x.device.type, enabled=False):  # the recurrence needs the precision of its weights
            x, output, cell = x.to(self.bias.dtype), state.output, state.cell  # (N, D), (B, D), (B, C)
            outputs = []
            for start, stop in packing.steps():
                n = stop - start  # sentences that have not ended yet: the first n
                m, c = self.step(x[start:stop], output[:n], cell[:n])
                outputs.append(m)
                output, cell = torch.cat((m, output[n:])), torch.cat((c, cell[n:]))
            return torch.cat(outputs), LstmState(output, cell)

    def step(self, x: Tensor, output: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """One token of n sentences: x (n, D), m' (n, D), c' (n, C) to m (n, D) and c (n, C)."""
        i, f, o, j = (self.input(x, self.bias) + self.state(output)).chunk(4, dim=1)  # each (n, C)
        c = _clip(torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(j), self.config.cell_clip)
        m = torch.sigmoid(o) * torch.tanh(c)
        if self.projection is not None:
            m = _clip(self.projection(m), self.config.proj_clip)
        return m, c


def _clip(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)
