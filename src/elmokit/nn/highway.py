"""A layer that changes its input only as far as a gate opens."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.nn.matmul import BlockedMatmul, Matmul, product

aten = torch.ops.aten

ROWS = 32  # training rounds to multiples: oneDNN compiles and keeps a kernel for every number of rows that it meets


class Highway(nn.Module):
    """y = g relu(x W_t + b_t) + (1 - g) x, with g = sigmoid(x W_g + b_g) (Srivastava et al. 2015).

    As in the published files the gate opens the transform, though it is called "carry" there.
    """

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.gate = Matmul(n_in=size, n_out=size)
        self.gate_bias = nn.Parameter(torch.empty(size))
        self.transform = Matmul(n_in=size, n_out=size)
        self.transform_bias = nn.Parameter(torch.empty(size))

    def forward(self, x: Tensor) -> Tensor:
        """(n, F) to (n, F)."""
        if self._learns(x):
            weights = (self.gate.weight, self.gate_bias, self.transform.weight, self.transform_bias)
            return cast(Tensor, _Highway.apply(x, *weights))  # type: ignore[no-untyped-call]
        g = torch.sigmoid(self.gate(x, self.gate_bias))
        t = functional.relu(self.transform(x, self.transform_bias))
        return torch.lerp(x, t, g)

    def _learns(self, x: Tensor) -> bool:
        """Whether oneDNN can help with gradients that are wanted; packed weights want none."""
        return (
            self.gate_bias.requires_grad
            and torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
            and BlockedMatmul.available(x)
        )


class _Highway(torch.autograd.Function):
    """The same by oneDNN, whose product is the faster one on some CPUs, with fewer passes over (n, F)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w_g: Tensor, b_g: Tensor, w_t: Tensor, b_t: Tensor) -> Tensor:
        n = len(x)
        x = functional.pad(x, (0, 0, 0, -n % ROWS))
        g = torch.ops.mkldnn._linear_pointwise(x, w_g.t(), b_g, "sigmoid", [], "")
        t = torch.ops.mkldnn._linear_pointwise(x, w_t.t(), b_t, "none", [], "").relu_()  # oneDNN's own would hide NaN
        ctx.save_for_backward(x, g, t, w_g, w_t)
        return torch.lerp(x, t, g)[:n]

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, g, t, w_g, w_t = ctx.saved_tensors
        n = len(grad)
        grad = functional.pad(grad, (0, 0, 0, len(x) - n))
        d_g = aten.sigmoid_backward((t - x).mul_(grad), g)  # of x W_g + b_g
        d_t = grad * g
        d_x = grad - d_t
        aten.threshold_backward(d_t, t, 0, grad_input=d_t)  # of x W_t + b_t
        x_t = x.t().contiguous()
        of_weights = product(x_t, d_g), d_g.sum(0), product(x_t, d_t), d_t.sum(0)
        if not ctx.needs_input_grad[0]:
            return None, *of_weights
        for d, w in ((d_g, w_g), (d_t, w_t)):
            d_x = torch.ops.mkldnn._linear_pointwise.binary(d, d_x, w, None, "add")  # d_x + d w^T
        return d_x[:n], *of_weights
