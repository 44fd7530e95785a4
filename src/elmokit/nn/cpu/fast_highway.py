"""Highway layer for CPUs: with gradients by oneDNN."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.nn.cpu import operators
from elmokit.nn.cpu.products import can_use_onednn, onednn_matmul, training_dtype
from elmokit.nn.highway import Highway

ROWS = 32  # rows are padded to a multiple of this: oneDNN compiles and caches one kernel per number of rows


class FastHighway(Highway):
    """`Highway` on a CPU: the plain form for inference, `HighwayFunction` for training."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, F) to (n, F)."""
        if not self._learns(x):
            return super().forward(x)
        weights = (self.gate.weight, self.gate_bias, self.transform.weight, self.transform_bias)
        dtype = training_dtype(x)
        with torch.autocast("cpu", enabled=False):
            return cast(Tensor, HighwayFunction.apply(x, *weights, dtype))  # type: ignore[no-untyped-call]

    def _learns(self, x: Tensor) -> bool:
        """Whether gradients are needed (packed weights have none), and oneDNN can compute them."""
        return (
            self.gate_bias.requires_grad
            and torch.is_grad_enabled()
            and can_use_onednn(x)
            and operators.has_derivatives()
        )


class HighwayFunction(torch.autograd.Function):
    """`Highway` with gradients by oneDNN, whose product is faster on some CPUs, in fewer passes over (n, F)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w_g: Tensor, b_g: Tensor, w_t: Tensor, b_t: Tensor, dtype: torch.dtype) -> Tensor:
        """x: (n, F); dtype: operand type of all matrix products. Returns (n, F)."""
        n = len(x)
        x = functional.pad(x, (0, 0, 0, -n % ROWS))
        if dtype == x.dtype:
            g = operators.onednn_linear(x, w_g.t(), b_g, "sigmoid")
            t = operators.onednn_linear(x, w_t.t(), b_t).relu_()  # oneDNN's own relu would hide NaN
        else:
            rounded = x.to(dtype)
            g = (onednn_matmul(rounded, w_g, dtype) + b_g).sigmoid_()
            t = (onednn_matmul(rounded, w_t, dtype) + b_t).relu_()
        ctx.save_for_backward(x, g, t, w_g, w_t)
        ctx.dtype = dtype
        return torch.lerp(x, t, g)[:n]

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x and the weights, from that of y."""
        (x, g, t, w_g, w_t), dtype = ctx.saved_tensors, ctx.dtype
        n = len(grad)
        grad = functional.pad(grad, (0, 0, 0, len(x) - n))
        d_g = operators.sigmoid_backward((t - x).mul_(grad), g)  # gradient of x W_g + b_g
        d_t = grad * g
        d_x = grad - d_t
        operators.threshold_backward(d_t, t, 0, grad_input=d_t)  # gradient of x W_t + b_t
        x_t = x.t().to(dtype).contiguous()
        of_biases = d_g.sum(0), d_t.sum(0)
        d_g, d_t = d_g.to(dtype), d_t.to(dtype)
        of_weights = [onednn_matmul(x_t, d, dtype).to(x.dtype) for d in (d_g, d_t)]
        gradients = (of_weights[0], of_biases[0], of_weights[1], of_biases[1], None)
        if not ctx.needs_input_grad[0]:
            return None, *gradients
        for d, w in ((d_g, w_g), (d_t, w_t)):
            if dtype == x.dtype:
                d_x = operators.onednn_linear_add(d, w, d_x)  # d_x + d w^T
            else:
                d_x += onednn_matmul(d, w.t(), dtype)
        return d_x[:n], *gradients
