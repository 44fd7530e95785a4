"""x @ W, with W as a trainable matrix, as a matrix in the library's own blocked layout, or in 8 bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.errors import ConfigError

Precision = Literal["float32", "int8"]


LARGEST_STEP = 64  # from one number of rows to the next, in `rounded`


class Matmul(nn.Module):
    """y = x W, with W kept (K, N): the published layout, and the faster one for the thin x of a recurrent step."""

    def __init__(self, *, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(..., K) to (..., N), plus bias (N,)."""
        return x @ self.weight if bias is None else x @ self.weight + bias

    @staticmethod
    def rows(n: int) -> int:
        """How many rows to give it instead of n, if there are more."""
        return n

    def packed(self, precision: Precision) -> nn.Module:
        """The same product for inference on a CPU; itself where there is nothing to gain."""
        if precision == "int8":
            return Int8Matmul(self.weight)
        return BlockedMatmul(self.weight) if BlockedMatmul.available(self.weight) else self


def repeated(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """x -> x W + b for many x, (n, K) to (n, N), without a graph: worth a reordering of W."""
    if not BlockedMatmul.available(weight):
        return plain(weight, bias)
    blocked = BlockedMatmul(weight)
    return lambda x: blocked(x, bias)  # type: ignore[no-any-return]


def plain(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """The same with W as it is."""
    weight = weight.detach()
    return weight.__rmatmul__ if bias is None else lambda x: torch.addmm(bias, x, weight)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x W, once and without a graph: oneDNN has the faster one on some CPUs. Let the sizes be few, as in `rounded`."""
    if not x.numel() or not BlockedMatmul.available(x):
        return x @ weight
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight.t(), None, "none", [], "")
    return y


def product_of_rows(x: Tensor, y: Tensor) -> Tensor:
    """x^T y: weights' gradients. (n, K) and (n, N) to (K, N); y may have more rows, of zeros."""
    n = max(rounded(len(x)), len(y))
    x, y = (t if len(t) == n else functional.pad(t, (0, 0, 0, n - len(t))) for t in (x, y))
    return product(x.t().contiguous(), y)


class BlockedMatmul(nn.Module):
    """y = x W in float32, W reordered once into oneDNN's blocked layout.

    A plain matrix product reorders W at every call, which a recurrent net with a batch of 64 pays for with half of its
    time. These are the operators that torch's own compiler emits for frozen weights.
    """

    blocks: Tensor

    def __init__(self, weight: Tensor, then: Literal["none", "sigmoid"] = "none") -> None:
        """then: what is done with y before it is written."""
        super().__init__()
        self.then = then
        blocks = torch.ops.mkldnn._reorder_linear_weight(weight.detach().t().contiguous())
        self.register_buffer("blocks", blocks, persistent=False)

    @staticmethod
    def available(weight: Tensor) -> bool:
        """True where this torch has the operators and the weights are CPU floats."""
        return (
            weight.device.type == "cpu"
            and weight.dtype == torch.float32
            and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
            and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
            and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        )

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(n, K) to (n, N), plus bias (N,)."""
        n, rows = len(x), self.rows(len(x))
        if rows > n:
            x = torch.cat((x, x.new_zeros(rows - n, x.shape[1])))
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.blocks, bias, self.then, [], "")
        return y[:n]

    @staticmethod
    def rows(n: int) -> int:
        """oneDNN compiles and keeps a kernel for every number of rows that it meets: let them be few."""
        return rounded(n)

    def unpacked(self) -> Tensor:
        """W as it was, (K, N)."""
        dense: Tensor = self.blocks.to_dense()
        return dense.t().contiguous()


def rounded(n: int) -> int:
    """The next of 1, 2, 3, 4, 8, 12, ..., 32, 40, ..., 256, 320, ..."""
    step = 1 if n <= 4 else 4 if n <= 32 else 8 if n <= 256 else LARGEST_STEP
    return -(-n // step) * step


def with_spare_rows(matrix: Tensor) -> Tensor:
    """A copy with rows of zeros at its end, so that any n of its rows, with what follows, are `rounded(n)` of them."""
    rows = matrix.new_zeros(len(matrix) + LARGEST_STEP - 1, matrix.shape[1])
    rows[: len(matrix)] = matrix
    return rows


class Int8Matmul(nn.Module):
    """y = x W in 8-bit integers, float32 in and out, with one scale per column of W and one per row of x.

    A row's scale is its own, so that a sentence's vectors do not depend on the batch around it. The kernels are those
    of torch's quantised linear layer, which use VNNI where the CPU has it. Without it they add pairs of products in
    16 bits; so x gets 7 bits, and nothing overflows.
    """

    SCALE, ZERO = 2 / 127, 64  # of a row whose largest number is 1: 0 to 127 for -1 to 1

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        columns = weight.detach().t().contiguous()  # (N, K)
        scales = columns.abs().amax(dim=1).clamp_min(1e-12) / 127
        engine = torch.backends.quantized.engine
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch announces the move of its quantisation front end
                torch.backends.quantized.engine = "fbgemm"  # the one with a product whose scale we may set
                zeros = torch.zeros(len(scales), dtype=torch.long)
                quantised = torch.quantize_per_channel(columns, scales.double(), zeros, 0, torch.qint8)
                self._product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
                self._weight = torch.ops.quantized.linear_prepack(quantised, None)
        except (RuntimeError, AttributeError) as error:
            reason = str(error).split("\n")[0]
            raise ConfigError(f"int8 needs torch's quantised kernels, which fail here: {reason}; use float32") from None
        finally:
            torch.backends.quantized.engine = engine

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(n, K) to (n, N), plus bias (N,)."""
        largest = x.abs().amax(dim=1, keepdim=True).clamp_min_(1e-12)  # (n, 1)
        y: Tensor = self._product(x / largest, self.SCALE, self.ZERO, self._weight)
        y.mul_(largest)
        return y if bias is None else y.add_(bias)

    @staticmethod
    def rows(n: int) -> int:
        """Any number is as good."""
        return n
