"""Filters over the characters of a word, each pooled to its largest answer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

TABLE_NUMBERS = 2**22  # of filters times characters: those of the published 262 fit, those of a Chinese model do not


class Convolution(nn.Module):
    """All filters of one width at all places of a word: as a matrix product, or as sums of rows of a table."""

    def __init__(self, *, width: int, channels: int, count: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(width * channels, count))
        self.bias = nn.Parameter(torch.empty(count))
        self.register_buffer("kept", None, persistent=False)  # the table, made by `tabulate_`

    kept: Tensor | None

    def table(self, embedding: Tensor) -> Tensor:
        """Every character times every filter at each of its places, (width * characters, count)."""
        with torch.autocast(embedding.device.type, enabled=False):  # few products, which make all sums
            return (embedding @ self.weight.view(self.width, embedding.shape[1], -1)).flatten(0, 1)

    def tabulate_(self, embedding: Tensor) -> None:
        """Make the table once and for all."""
        self.kept = self.table(embedding).detach()

    def look_up(self, ids: Tensor, table: Tensor) -> Tensor:
        """(n, positions) characters to (n, count), as `forward` of their vectors: what is left is a sum of rows."""
        largest: Tensor = _LargestSum.apply(table, ids, self.width)  # type: ignore[no-untyped-call]
        return largest + self.bias

    def forward(self, characters: Tensor) -> Tensor:
        """(n, positions, e) to (n, count): the largest answer of each filter over all positions, plus bias."""
        windows = characters.unfold(1, self.width, 1).transpose(2, 3)  # (n, positions - width + 1, width, e)
        rows = windows.reshape(-1, len(self.weight))  # (n * (positions - width + 1), width * e)
        scores = (rows @ self.weight).view(*windows.shape[:2], -1)  # (n, positions - width + 1, count)
        largest = _largest(scores)[0] if scores.requires_grad else scores.amax(dim=1)
        return largest + self.bias


class _LargestSum(torch.autograd.Function):
    """y_f = max over p of sum over k of table[k, ids[p + k], f].

    Only the place of the maximum has a gradient, so that the backward pass has little to do: rows of the table get the
    sums of what they were part of.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, width: int) -> Tensor:
        """table: (width * characters, count), ids: (n, positions). Returns (n, count)."""
        first = torch.arange(0, len(table), len(table) // width, device=ids.device)  # row of the table for each k
        rows = (ids.unfold(1, width, 1) + first).flatten(0, 1)  # (n * (positions - width + 1), width)
        scores = functional.embedding_bag(rows, table, mode="sum").view(len(ids), -1, table.shape[1])
        if not ctx.needs_input_grad[0]:
            return scores.amax(dim=1)
        largest, place = _largest(scores)
        ctx.save_for_backward(ids, place)
        ctx.width, ctx.n_characters = width, len(table) // width
        return largest

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        ids, place = ctx.saved_tensors
        # Filter by filter, so that the sums of one are close together: (count, n)
        grad, place = grad.t().contiguous(), place.t().contiguous()
        place += torch.arange(0, ids.numel(), ids.shape[1], device=ids.device)  # in the ids of all words
        sums, ids = grad.new_zeros(len(grad), ctx.width * ctx.n_characters), ids.flatten()
        for k, part in enumerate(sums.split(ctx.n_characters, dim=1)):  # type: ignore[no-untyped-call]
            there = ids[k:].index_select(0, place.flatten())  # the character at each window's k-th place
            part.scatter_add_(1, there.view_as(place), grad)
        return sums.t(), None, None


def _largest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """(n, positions, count) to the maxima over all positions, and where they are; both (n, count).

    As an image of one line whose channels stand side by side: torch pools such ones many times as fast as it finds the
    maxima of a dimension with their places. (Without places, `amax` is the fastest.)
    """
    lines = scores.transpose(1, 2).unsqueeze(2)  # (n, count, 1, positions)
    values, places = functional.max_pool2d(lines, (1, scores.shape[1]), return_indices=True)
    return values.flatten(1), places.flatten(1)
