"""Both directions of a single sentence at once, so that two cores have something to do."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmokit.nn.cpu.fused_gates import double_j_
from elmokit.nn.cpu.lstm_cell import cell_step
from elmokit.nn.lstm import LstmLayer
from elmokit.nn.state import BiLMState, LstmState

SMALL = 2**20  # elements of a weight, at most: larger ones are bound by memory bandwidth, and would be stored twice
TOKENS_PER_BLOCK = 512  # for input products computed at once, so that a sentence of any length fits into memory


class BidirectionalLstm(nn.Module):
    """The forward and the backward LSTM of a layer as one, with a leading dimension of 2 everywhere.

    A step of a single sentence is thirty small operations, whose cost is mostly call overhead. This halves their
    number, and lets each core multiply by one direction's weights. The j block of the weights is stored doubled, so
    that one sigmoid gives (j + 1) / 2, which `cell_step` expects.
    """

    input: Tensor  # (2, D, 4C)
    state: Tensor  # (2, D, 4C)
    bias: Tensor  # (2, 1, 4C)
    projection: Tensor | None  # (2, C, D)

    def __init__(self, forward: LstmLayer, backward: LstmLayer) -> None:
        super().__init__()
        self.config = forward.config
        both = (forward, backward)
        for name in ("input", "state", "projection"):
            weights = [getattr(layer, name).weight.detach() for layer in both if getattr(layer, name)]
            self.register_buffer(name, torch.stack(weights) if weights else None, persistent=False)
        bias = torch.stack([layer.bias.detach() for layer in both]).unsqueeze(1)
        self.register_buffer("bias", bias, persistent=False)
        for gates in (self.input, self.state, self.bias):
            double_j_(gates)

    def forward(self, x: Tensor, output: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x: (2, T, D), each direction's input in the order it reads; output, cell: state, (2, 1, D) and (2, 1, C).

        Returns m: (2, T, D), and the state after the last token.
        """
        cell, outputs = cell.clone(), []
        cell_clip, clip, state, projection = self.config.cell_clip, self.config.proj_clip, self.state, self.projection
        for block in x.split(TOKENS_PER_BLOCK, dim=1):  # type: ignore[no-untyped-call]
            inputs = torch.baddbmm(self.bias, block, self.input)  # (2, TOKENS_PER_BLOCK, 4C)
            for step in inputs.split(1, dim=1):  # type: ignore[no-untyped-call]
                gates = torch.baddbmm(step, output, state).sigmoid_()  # (2, 1, 4C)
                output = cell_step(gates, cell, cell_clip)  # (2, 1, C)
                if projection is not None:
                    output = torch.bmm(output, projection)  # (2, 1, D)
                    if clip is not None:
                        output.clamp_(-clip, clip)
                outputs.append(output)
        return torch.cat(outputs, dim=1), output, cell


class BidirectionalStack(nn.ModuleList):
    """All layers of both directions, from the plain weights of two stacks."""

    def __init__(self, forward: nn.ModuleList, backward: nn.ModuleList) -> None:
        super().__init__(BidirectionalLstm(f, b) for f, b in zip(forward, backward, strict=True))  # type: ignore[arg-type]

    def forward(self, x: Tensor, state: BiLMState, skip_connections: bool) -> tuple[list[Tensor], list[LstmState]]:
        """x: (2, T, D). Returns every layer's output, (2, T, D), and its final state, (2, 1, D) and (2, 1, C)."""
        outputs, end = [], []
        for n, (layer, f, b) in enumerate(zip(self, state.forward, state.backward, strict=True)):
            m, output, cell = layer(x, torch.stack((f.output, b.output)), torch.stack((f.cell, b.cell)))
            x = m + x if n and skip_connections else m
            outputs.append(x)
            end.append(LstmState(output, cell))
        return outputs, end
