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

SCORES_PER_BLOCK = 2**22  # scores per block: 16 MB, which fit into the cache
FEWEST_ROWS = 128  # rows per block, at least: with fewer, adding up weight gradients would cost more than the scores
LARGEST_BLOCK = 2**25  # scores per block, at most: 128 MB, even if that means fewer rows


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

    Gradients are computed in the forward pass, as of the sum of the losses, and scaled in the backward pass. For x and
    own that is exact for any incoming gradient; for rows and bias only if all losses have the same one, as in a sum or
    a mean, otherwise these are recomputed.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, rows: Tensor, bias: Tensor, own: Tensor, own_bias: Tensor, hit: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """x, own: (n, D); rows: (K, D), bias: (K,); own_bias: (n,); hit: (n,) a column to leave out, or -1.

        dtype: operand type of all matrix products.
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
        """Gradients of x, rows, bias, own and own_bias, from those of the losses."""
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
    """Losses (n,) and, if `scale` (n,) is given, their gradients through the scores s = x rows^T + bias.

    These are the gradients of x (n, D), not scaled; of rows (K, D) and bias (K,), summed over the losses times `scale`;
    and 1 - p(target), (n,), from which the caller computes the gradients through the target's own score.
    """
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
