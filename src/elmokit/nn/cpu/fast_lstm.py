"""LSTM layer for CPUs: in-place steps for inference, a hand-written backward pass for training."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from elmokit.nn.cpu import operators
from elmokit.nn.cpu.fused_gates import FusedGates
from elmokit.nn.cpu.lstm_cell import activate_, cell_step
from elmokit.nn.cpu.lstm_gradient import LstmFunction
from elmokit.nn.cpu.packed_matmul import PackedMatmul
from elmokit.nn.cpu.products import training_dtype, with_spare_rows
from elmokit.nn.cpu.step_inputs import step_inputs
from elmokit.nn.lstm import LstmLayer
from elmokit.nn.matmul import Matmul
from elmokit.nn.packing import Packing
from elmokit.nn.state import LstmState


class FastLstmLayer(LstmLayer):
    """`LstmLayer` on a CPU. For inference its weights may be packed, or fused by `fuse_`."""

    @property
    def fused(self) -> FusedGates | None:
        """W and U as one matrix, if `fuse_` has put them together."""
        return cast("FusedGates | None", self._modules.get("fused_gates"))

    def fuse_(self) -> None:
        """Put W and U together, in place: the fastest form for small weights and one input per token."""
        self.add_module("fused_gates", FusedGates(self.input.weight, self.state.weight, self.bias))
        del self.input, self.state

    def forward(self, x: Tensor, packing: Packing, state: LstmState) -> tuple[Tensor, LstmState]:
        """As `LstmLayer.forward`."""
        return self.run(x, None, packing, state)

    def run(
        self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState, same_start: bool = False
    ) -> tuple[Tensor, LstmState]:
        """Run over packed sentences.

        x: (N, D) the input of every token; or (U, D) of every distinct word, with index (N,), the row of each token.
        same_start: all sentences have the same first input and the same initial state, which needs no gradient.
        Returns m: (N, D), and the state after every sentence's last token.
        """
        needs_gradient = torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (x, state.output, state.cell, *self.parameters())
        )
        if x.device.type != "cpu" or (needs_gradient and not operators.has_derivatives()):
            return super().forward(x if index is None else x[index], packing, state)
        dtype = training_dtype(self.bias)
        with torch.autocast("cpu", enabled=False):  # state and sums keep the precision of the weights
            x = x.to(self.bias.dtype)
            if needs_gradient:
                return self._run_with_gradient(x, index, packing, state, same_start, dtype)
            if self.fused is not None:
                return self._run_fused(self.fused, x if index is None else x[index], packing, state)
            return self._run(x, index, packing, state)

    def _run(self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState) -> tuple[Tensor, LstmState]:
        m = x.new_empty(packing.n_tokens, self.config.projection_dim)
        cell = state.cell.clone()
        product: nn.Module = self.state
        before, rows = with_spare_rows(state.output), product.rows if isinstance(product, PackedMatmul) else int
        inputs = step_inputs(lambda x: self.input(x, self.bias), x, index, packing, len(self.bias))
        for (start, stop), gates_in in zip(packing.steps(), inputs, strict=True):
            n = stop - start
            gates: Tensor = product(before[: rows(n)])[:n]  # (n, 4C)
            gates += gates_in
            hidden = cell_step(activate_(gates), cell[:n], self.config.cell_clip)  # (n, C)
            before[:n] = self._project(hidden, out=m[start:stop])
        return m, LstmState(m[packing.last()], cell)

    def _run_fused(self, fused: FusedGates, x: Tensor, packing: Packing, state: LstmState) -> tuple[Tensor, LstmState]:
        m = torch.empty_like(x)
        cell = state.cell.clone()
        both = with_spare_rows(torch.cat((torch.zeros_like(state.output), state.output), dim=1))  # x beside m'
        own, before = both.chunk(2, dim=1)
        for start, stop in packing.steps():
            n = stop - start
            own[:n] = x[start:stop]
            gates = fused(both[: fused.rows(n)], fused.bias)[:n]  # (n, 4C)
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

    def _run_with_gradient(
        self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState, same_start: bool, dtype: torch.dtype
    ) -> tuple[Tensor, LstmState]:
        projection = None if self.projection is None else self.projection.weight
        m, cell = LstmFunction.apply(  # type: ignore[no-untyped-call]
            x,
            self.input.weight,
            self.state.weight,
            self.bias,
            projection,
            state.output,
            state.cell,
            index,
            packing,
            same_start,
            self.config,
            dtype,
        )
        return m, LstmState(m[packing.last()], cell)
