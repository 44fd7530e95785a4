"""The LSTM with projection and two clips that no library has: the most used, and most tested, file of the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from elmokit.config import LstmConfig
from elmokit.nn.cell import activate_, cell_step
from elmokit.nn.joined import JoinedGates
from elmokit.nn.lstm_training import LstmFunction
from elmokit.nn.matmul import Matmul, with_spare_rows
from elmokit.nn.packing import Packing
from elmokit.nn.step_inputs import step_inputs


@dataclass(frozen=True)
class LstmState:
    """What one layer hands from one token to the next, for B sentences."""

    output: Tensor  # (B, D) the projected output m, before the residual connection
    cell: Tensor  # (B, C)

    def expand(self, n: int) -> LstmState:
        """One sentence's state for n of them."""
        return LstmState(self.output.expand(n, -1), self.cell.expand(n, -1))


class LstmLayer(nn.Module):
    """One direction of one layer (Sak et al. 2014, with the clips of the published biLM).

        i, f, o = sigmoid(x W + m' U + b);  j = tanh(x W + m' U + b)
        c = clip(f c' + i j, cell_clip);    m = clip((o tanh(c)) P, proj_clip)

    The four blocks of W, U and b stand in the order i, f, o, j, so that the three sigmoids are one call. b holds the
    constant 1 that the published code adds to the forget gate.
    """

    def __init__(self, *, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.input: nn.Module = Matmul(n_in=config.projection_dim, n_out=4 * config.dim)
        self.state: nn.Module = Matmul(n_in=config.projection_dim, n_out=4 * config.dim)
        self.bias = nn.Parameter(torch.empty(4 * config.dim))
        self.projection: nn.Module | None = None
        if config.has_projection:
            self.projection = Matmul(n_in=config.dim, n_out=config.projection_dim)
        self.joined: JoinedGates | None = None  # made by `join_`

    def join_(self) -> None:
        """Put W and U, which must be plain, into one: the fastest form for small weights and an input a token."""
        self.joined = JoinedGates(cast(Matmul, self.input), cast(Matmul, self.state), self.bias)
        del self.input, self.state

    def zero_state(self, n: int) -> LstmState:
        """The state before the first token of n sentences."""
        zeros = self.bias.new_zeros
        return LstmState(zeros(n, self.config.projection_dim), zeros(n, self.config.dim))

    def forward(
        self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState, alike: bool = False
    ) -> tuple[Tensor, LstmState]:
        """Run over packed sentences.

        x: (N, D) the input of every token; or (U, D) of every distinct word, with index (N,) saying which is where.
        alike: all sentences start from one state, which needs no gradient, with one and the same input.
        Returns m: (N, D), and the state after every sentence's last token.
        """
        with torch.autocast(x.device.type, enabled=False):  # the recurrence needs the precision of its weights
            x = x.to(self.bias.dtype)
            needs_gradient = (t.requires_grad for t in (x, state.output, state.cell, *self.parameters()))
            if torch.is_grad_enabled() and any(needs_gradient):
                return self._forward_with_gradient(x, index, packing, state, alike)
            if self.joined is not None:
                return self._forward_joined(self.joined, x if index is None else x[index], packing, state)
            return self._forward(x, index, packing, state)

    def _forward(self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState) -> tuple[Tensor, LstmState]:
        m = x.new_empty(packing.n_tokens, self.config.projection_dim)
        cell = state.cell.clone()
        before, rows = with_spare_rows(state.output), cast(Matmul, self.state).rows
        inputs = step_inputs(lambda x: self.input(x, self.bias), x, index, packing, len(self.bias))
        for (start, stop), gates_in in zip(packing.steps(), inputs, strict=True):
            n = stop - start
            gates: Tensor = self.state(before[: rows(n)])[:n]  # (n, 4C)
            gates += gates_in
            hidden = cell_step(activate_(gates), cell[:n], self.config.cell_clip)  # (n, C)
            before[:n] = self._project(hidden, out=m[start:stop])
        return m, LstmState(m[packing.last()], cell)

    def _forward_joined(
        self, joined: JoinedGates, x: Tensor, packing: Packing, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        m = torch.empty_like(x)
        cell = state.cell.clone()
        both = with_spare_rows(torch.cat((torch.zeros_like(state.output), state.output), dim=1))  # x beside m'
        own, before = both.chunk(2, dim=1)
        for start, stop in packing.steps():
            n = stop - start
            own[:n] = x[start:stop]
            gates = joined(both[: joined.rows(n)], joined.bias)[:n]  # (n, 4C)
            hidden = cell_step(gates, cell[:n], self.config.cell_clip)  # (n, C)
            before[:n] = self._project(hidden, out=m[start:stop])
        return m, LstmState(m[packing.last()], cell)

    def _project(self, hidden: Tensor, out: Tensor) -> Tensor:
        """(n, C) to (n, D), which is written to `out`."""
        if self.projection is None:
            return out.copy_(hidden)
        if isinstance(self.projection, Matmul):
            torch.mm(hidden, self.projection.weight, out=out)
        else:
            out.copy_(self.projection(hidden))
        clip = self.config.proj_clip
        return out if clip is None else out.clamp_(-clip, clip)

    def _forward_with_gradient(
        self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState, alike: bool
    ) -> tuple[Tensor, LstmState]:
        projection = None if self.projection is None else self.projection.weight
        m, cell = LstmFunction.apply(  # type: ignore[no-untyped-call]
            x, self.input.weight, self.state.weight, self.bias, projection, state.output, state.cell,
            index, packing, alike, self.config,
        )  # fmt: skip
        return m, LstmState(m[packing.last()], cell)
