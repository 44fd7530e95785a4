"""Softmax losses for CPUs.

The cost is dominated by the n x V matrix of scores. It is computed in blocks of rows that fit into the cache, together
with the gradients of a block: no score is computed twice, and none is stored.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.nn.cpu.products import linear, prepacked_linear, round_rows, training_dtype, transposed_matmul
from elmokit.nn.softmax import AdaptiveHead, SoftmaxHead, SoftmaxLoss

SCORES_PER_BLOCK = 2**22  # scores at a time: 16 MB, which a cache holds
FEWEST_ROWS = 256  # below that, adding to the gradients of all words would cost more than the scores
LARGEST_BLOCK = 2**25  # but no more than 128 MB


class FastSoftmaxLoss(SoftmaxLoss):
    """`SoftmaxLoss` on a CPU."""

    def full_loss(self, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        """As `SoftmaxLoss.full_loss`."""
        if x.device.type != "cpu":
            return super().full_loss(x, weight, bias, targets)
        return self.sampled_loss(x, weight, bias, functional.embedding(targets, weight), bias[targets], targets)

    def sampled_loss(self, x: Tensor, rows: Tensor, bias: Tensor, own: Tensor, own_bias: Tensor, hit: Tensor) -> Tensor:
        """As `SoftmaxLoss.sampled_loss`."""
        if x.device.type != "cpu":
            return super().sampled_loss(x, rows, bias, own, own_bias, hit)
        dtype = training_dtype(rows)
        with torch.autocast("cpu", enabled=False):  # sums over so many words need full precision
            losses: Tensor = LossFunction.apply(x.to(rows.dtype), rows, bias, own, own_bias, hit, dtype)  # type: ignore[no-untyped-call]
        return losses


class FastSoftmaxHead(FastSoftmaxLoss, SoftmaxHead):
    """`SoftmaxHead` on a CPU."""


class FastAdaptiveHead(FastSoftmaxLoss, AdaptiveHead):
    """`AdaptiveHead` on a CPU."""


class LossFunction(torch.autograd.Function):
    """`SoftmaxLoss.sampled_loss` with gradients.

    These are computed in the forward pass as if of a sum, and scaled in the backward pass: exact for x and own whatever
    the losses are multiplied with; for rows and bias only if with one number, else they are computed again.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, rows: Tensor, bias: Tensor, own: Tensor, own_bias: Tensor, hit: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """x, own: (n, D); rows: (K, D), bias: (K,); own_bias: (n,); hit: (n,) a column to leave out, or -1.

        dtype: of the factors of all products.
        """
        wanted = any(ctx.needs_input_grad)
        losses, gradients = _read_blocks(
            x, rows, bias, own, own_bias, hit, torch.ones_like(own_bias) if wanted else None, dtype
        )
        ctx.dtype = dtype
        ctx.save_for_backward(x, rows, bias, own, own_bias, hit, *gradients)
        return losses

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the losses to those of x, rows, bias, own and own_bias."""
        x, rows, bias, own, own_bias, hit, grad_x, grad_rows, grad_bias, surprise = ctx.saved_tensors
        one = scale[:1] if len(scale) else scale.new_ones(1)
        if (scale == one).all():  # a sum or a mean, as losses are
            grad_rows, grad_bias = grad_rows * one, grad_bias * one
        else:
            _, (_, grad_rows, grad_bias, _) = _read_blocks(x, rows, bias, own, own_bias, hit, scale, ctx.dtype)
        per_row = (surprise * scale).unsqueeze(1)
        grad_x = grad_x * scale.unsqueeze(1) - per_row * own
        return grad_x, grad_rows, grad_bias, -per_row * x, -per_row[:, 0], None, None


def _read_blocks(
    x: Tensor,
    rows: Tensor,
    bias: Tensor,
    own: Tensor,
    own_bias: Tensor,
    hit: Tensor,
    scale: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The losses (n,); and, with a factor (n,) for each of them, gradients through s of x (not scaled), rows and bias,
    and 1 - p of the target, (n,)."""
    n, n_columns = len(x), len(rows)
    height = max(1, min(max(FEWEST_ROWS, SCORES_PER_BLOCK // n_columns), LARGEST_BLOCK // n_columns))
    height = next(r for r in range(height, 0, -1) if r == round_rows(r))
    form = prepacked_linear if height < n and rows.numel() <= LARGEST_BLOCK else linear
    to_scores, to_x = form(rows.t(), bias, dtype), None if scale is None else form(rows, None, dtype)
    t = (x * own).sum(dim=1) + own_bias
    losses, surprise, grad_x = torch.empty_like(t), torch.empty_like(t), torch.empty_like(x)
    grad_rows = None if scale is None else x.new_zeros(x.shape[1] + 1, n_columns)  # (D + 1, K): of bias in the last row
    for start in range(0, n, height):
        part = slice(start, start + height)
        x_, t_, hit_ = x[part], t[part], hit[part]
        s = to_scores(x_)  # (r, K)
        hits = (hit_ >= 0).nonzero().squeeze(1)
        s[hits, hit_[hits]] = -math.inf
        top = torch.maximum(s.amax(dim=1), t_)
        s.sub_(top.unsqueeze(1)).exp_()
        others, itself = s.sum(dim=1), torch.exp(t_ - top)
        total = others + itself
        losses[part] = torch.log(total) + top - t_
        if scale is not None and to_x is not None and grad_rows is not None:
            surprise[part] = others / total
            s = s.to(dtype)
            torch.div(to_x(s), total.unsqueeze(1), out=grad_x[part])
            weight = (scale[part] / total).unsqueeze(1)
            grad_rows += transposed_matmul(torch.cat((x_ * weight, weight), dim=1), s, dtype)
        del s  # its memory is that of the next block
    if grad_rows is None:
        return losses, ()
    return losses, (grad_x, grad_rows[:-1].t().contiguous(), grad_rows[-1], surprise)
