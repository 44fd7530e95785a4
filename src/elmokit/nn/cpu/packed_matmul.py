"""Weights in a form for inference: prepacked float32, or 8-bit integers. Each replaces a `Matmul`."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from elmokit.errors import ConfigError
from elmokit.nn.cpu import operators
from elmokit.nn.cpu.products import can_use_onednn, pad_rows, reorder, round_rows

Precision = Literal["float32", "int8"]


class PackedMatmul(nn.Module):
    """y = x W + b with a W that cannot be trained."""

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(n, K) to (n, N), plus bias (N,)."""
        raise NotImplementedError

    @staticmethod
    def rows(n: int) -> int:
        """Number of rows to pass instead of n, if that many are available."""
        return n


class PrepackedMatmul(PackedMatmul):
    """y = x W in float32, W reordered once into oneDNN's blocked layout.

    A plain matrix product reorders W at every call, which takes half of the time of a recurrent net with a batch of 64.
    torch's own compiler emits the same operators for frozen weights. A state dict holds W as it was.
    """

    blocks: Tensor

    def __init__(self, weight: Tensor, then: operators.Activation = "none") -> None:
        """weight: (K, N); then: activation fused into the product."""
        super().__init__()
        self.then = then
        self.register_buffer("blocks", reorder(weight), persistent=False)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(n, K) to (n, N), plus bias (N,)."""
        n = len(x)
        return operators.onednn_linear(pad_rows(x), self.blocks, bias, self.then)[:n]

    @staticmethod
    def rows(n: int) -> int:
        """n rounded up, so that oneDNN compiles few kernels."""
        return round_rows(n)

    def unpacked(self) -> Tensor:
        """W as it was, (K, N)."""
        return self.blocks.to_dense().t().contiguous()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = self.unpacked()


class Int8Matmul(PackedMatmul):
    """y = x W in 8-bit integers, float32 in and out, with one scale per column of W and one per row of x.

    A row's scale is its own, so that a sentence's vectors do not depend on the batch around it. The kernels are those
    of torch's quantized linear layer, which use VNNI where the CPU has it. Without it they add pairs of products in
    16 bits; so x gets 7 bits, and nothing overflows.
    """

    SCALE, ZERO = 2 / 127, 64  # of x: each row is scaled to [-1, 1], which becomes 0 to 127

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        if not operators.has_int8():
            raise ConfigError("int8 needs torch's quantized kernels, which fail here; use float32")
        columns = weight.detach().t().contiguous()  # (N, K)
        scales = columns.abs().amax(dim=1).clamp_min(1e-12) / 127
        self._weight = operators.quantize_weight(columns, scales)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(n, K) to (n, N), plus bias (N,)."""
        largest = x.abs().amax(dim=1, keepdim=True).clamp_min_(1e-12)  # (n, 1)
        y = operators.quantized_linear(x / largest, self.SCALE, self.ZERO, self._weight)
        y.mul_(largest)
        return y if bias is None else y.add_(bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        raise ConfigError("int8 weights cannot be converted back: load the model again with dtype float32")


def packed(weight: Tensor, precision: Precision) -> PackedMatmul | None:
    """Fastest packed form of W (K, N) in a precision; None to keep the plain `Matmul`."""
    if precision == "int8":
        return Int8Matmul(weight)
    return PrepackedMatmul(weight) if can_use_onednn(weight) else None
