"""All gates of a small LSTM in one matrix product, the sigmoid fused into it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from elmokit.nn.cpu.packed_matmul import PrepackedMatmul


class FusedGates(PrepackedMatmul):
    """sigmoid([x; m'] [W; U] + b), (n, 2D) to (n, 4C), with the block of j doubled, as `cell_step` wants it.

    Two products, their sum and its sigmoid write (n, 4C) numbers four times; where weights are small, that takes as
    long as the products do.
    """

    bias: Tensor

    def __init__(self, w: Tensor, u: Tensor, bias: Tensor) -> None:
        super().__init__(double_j_(torch.cat((w.detach(), u.detach()))), then="sigmoid")
        self.register_buffer("bias", double_j_(bias.detach().clone()), persistent=False)

    def separate(self) -> tuple[Tensor, Tensor]:
        """W and U as they were."""
        both = self.unpacked()
        both[:, 3 * both.shape[1] // 4 :].div_(2)  # exact, as doubling was
        w, u = both.chunk(2)
        return w, u

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        layer = prefix.removesuffix("fused_gates.")  # prefix of the LSTM layer
        destination[f"{layer}input.weight"], destination[f"{layer}state.weight"] = self.separate()


def double_j_(gates: Tensor) -> Tensor:
    """The last quarter of the columns, that of j, times two; in place."""
    gates[..., 3 * gates.shape[-1] // 4 :].mul_(2)
    return gates
