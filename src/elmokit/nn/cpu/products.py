"""Matrix products for CPUs, without autograd: oneDNN's where it helps, torch's elsewhere.

Each can round its operands to `dtype` first: bfloat16, which some CPUs multiply at twice the speed. Accumulation is
then in float32, and the result is bfloat16, or float32 if a bias is added.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.nn.cpu import operators

LARGEST_ROW_STEP = 64  # from one number of rows to the next, in `round_rows`


def can_use_onednn(x: Tensor) -> bool:
    """Whether oneDNN can multiply such a matrix."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and operators.has_onednn()


def training_dtype(x: Tensor) -> torch.dtype:
    """Operand type of products: bfloat16 under autocast if the CPU is faster with it.

    Otherwise the type of x, or float32 if that is bfloat16.
    """
    wanted = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    fits = x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)
    if wanted and fits and operators.has_bfloat16():
        return torch.bfloat16
    return torch.float32 if x.dtype == torch.bfloat16 else x.dtype


def prepacked_linear(
    weight: Tensor, bias: Tensor | None = None, dtype: torch.dtype | None = None
) -> Callable[[Tensor], Tensor]:
    """x -> x W + b for many x: (n, K) to (n, N), with W (K, N) reordered once. With a bias the result is float32."""
    if not can_use_onednn(weight):
        return linear(weight, bias)
    blocks = reorder(weight, dtype)
    inside, after = (bias, None) if blocks.dtype == torch.float32 else (None, bias)

    def multiply(x: Tensor) -> Tensor:
        n = len(x)
        y = operators.onednn_linear(pad_rows(x.to(blocks.dtype)), blocks, inside)[:n]
        return y if after is None else y.float().add_(after)  # torch adds a bfloat16 to a float32 tensor more slowly

    return multiply


def linear(weight: Tensor, bias: Tensor | None = None, dtype: torch.dtype | None = None) -> Callable[[Tensor], Tensor]:
    """x -> x W + b as `prepacked_linear`, but without reordering W."""
    if dtype == torch.bfloat16:  # torch's own product of bfloat16 is oneDNN's
        rounded = weight.detach().to(dtype)
        return lambda x: x.to(dtype) @ rounded if bias is None else (x.to(dtype) @ rounded).float().add_(bias)
    weight = weight.detach()
    return weight.__rmatmul__ if bias is None else lambda x: torch.addmm(bias, x, weight)


def onednn_matmul(x: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """x W for a W used once, by oneDNN, which is faster on some CPUs. Few sizes should occur, as with `round_rows`."""
    x, weight = x.to(dtype), weight.to(dtype)
    if not x.numel() or not (x.dtype == torch.bfloat16 or can_use_onednn(x)):
        return x @ weight
    return operators.onednn_linear(x, weight.t())


def transposed_matmul(x: Tensor, y: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """x^T y, the gradient of a weight: (n, K) and (n, N) to (K, N); y may have more rows, of zeros."""
    n = max(round_rows(len(x)), len(y))
    x, y = (t if len(t) == n else functional.pad(t, (0, 0, 0, n - len(t))) for t in (x, y))
    return onednn_matmul(x.t().to(dtype).contiguous(), y, dtype)


def reorder(weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """W (K, N) in oneDNN's blocked layout, transposed."""
    return operators.onednn_reorder(weight.detach().t().to(dtype).contiguous())


def round_rows(n: int) -> int:
    """Round n up to the next of 1, 2, 3, 4, 8, 12, ..., 32, 40, ..., 256, 320, ...

    oneDNN compiles and caches one kernel per number of rows, so few different numbers should occur.
    """
    step = 1 if n <= 4 else 4 if n <= 32 else 8 if n <= 256 else LARGEST_ROW_STEP
    return -(-n // step) * step


def pad_rows(x: Tensor) -> Tensor:
    """(n, K) with rows of zeros up to `round_rows(n)`."""
    missing = round_rows(len(x)) - len(x)
    return torch.cat((x, x.new_zeros(missing, x.shape[1]))) if missing else x


def with_spare_rows(x: Tensor) -> Tensor:
    """A copy with rows of zeros appended, so that a slice of any n rows can be extended to `round_rows(n)` rows."""
    rows = x.new_zeros(len(x) + LARGEST_ROW_STEP - 1, x.shape[1])
    rows[: len(x)] = x
    return rows
