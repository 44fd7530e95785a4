"""Filters over the characters of a word, each pooled to its largest answer."""

from __future__ import annotations

from collections.abc import Sequence
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
            filters = self.weight.view(self.width, embedding.shape[1], -1)
            return torch.bmm(embedding.expand(self.width, -1, -1), filters).flatten(0, 1)

    def tabulate_(self, embedding: Tensor) -> None:
        """Make the table once and for all."""
        self.kept = self.table(embedding).detach()

    def look_up(self, blocks: Sequence[Tensor], table: Tensor) -> Tensor:
        """Characters, as `forward` of their vectors: what is left is a sum of rows. Each block is (n, positions)."""
        largest: Tensor = _LargestSum.apply(table, self.width, *blocks)  # type: ignore[no-untyped-call]
        return largest + self.bias

    def forward(self, blocks: Sequence[Tensor]) -> Tensor:
        """(n, positions, e) of some words and then some more to (all n, count): the largest answer of each filter over
        all positions, plus bias."""
        return torch.cat([self._largest_answer(characters) for characters in blocks]) + self.bias

    def _largest_answer(self, characters: Tensor) -> Tensor:
        windows = characters.unfold(1, self.width, 1).transpose(2, 3)  # (n, positions - width + 1, width, e)
        rows = windows.reshape(-1, len(self.weight))  # (n * (positions - width + 1), width * e)
        scores = (rows @ self.weight).view(*windows.shape[:2], -1)  # (n, positions - width + 1, count)
        return _largest(scores)[0] if scores.requires_grad else scores.amax(dim=1)


class _LargestSum(torch.autograd.Function):
    """y_f = max over p of sum over k of table[k, ids[p + k], f].

    Only the place of the maximum has a gradient, so that the backward pass has little to do: rows of the table get the
    sums of what they were part of.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, width: int, *blocks: Tensor) -> Tensor:
        """table: (width * characters, count), blocks: ids, each (n, positions). Returns (all n, count)."""
        first = torch.arange(0, len(table), len(table) // width, device=table.device)  # row of the table for each k
        answers, places = [], []
        for ids in blocks:
            rows = (ids.unfold(1, width, 1) + first).flatten(0, 1)  # (n * (positions - width + 1), width)
            scores = functional.embedding_bag(rows, table, mode="sum").view(len(ids), -1, table.shape[1])
            if ctx.needs_input_grad[0]:
                answer, place = _largest(scores)
                places.append(place)
            else:
                answer = scores.amax(dim=1)
            answers.append(answer)
        ctx.save_for_backward(*blocks, *places)
        ctx.width, ctx.n_characters = width, len(table) // width
        return torch.cat(answers) if len(answers) > 1 else answers[0]

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        n_blocks = len(ctx.saved_tensors) // 2
        blocks, places = ctx.saved_tensors[:n_blocks], ctx.saved_tensors[n_blocks:]
        # Filter by filter, so that the sums of one are close together, and torch's threads can share the filters
        sums = grad.new_zeros(grad.shape[1], ctx.width * ctx.n_characters)
        parts = sums.split(ctx.n_characters, dim=1)  # type: ignore[no-untyped-call]
        for ids, place, d in zip(blocks, places, grad.split([len(ids) for ids in blocks]), strict=True):  # type: ignore[no-untyped-call]
            d = d.t().contiguous()  # (count, n)
            first = torch.arange(0, ids.numel(), ids.shape[1], device=ids.device)  # of each word, in the ids of all
            window = torch.add(place.t(), first, out=torch.empty_like(d, dtype=torch.long))
            characters, there = ids.flatten().expand(len(d), -1), torch.empty_like(window)
            for k, part in enumerate(parts):
                torch.gather(characters[:, k:], 1, window, out=there)  # the character at each window's k-th place
                part.scatter_add_(1, there, d)
        return sums.t(), None, *(None for _ in blocks)


def _largest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """(n, positions, count) to the maxima over all positions, and where they are; both (n, count).

    As an image of one line whose channels stand side by side: torch pools such ones many times as fast as it finds the
    maxima of a dimension with their places. (Without places, `amax` is the fastest.)
    """
    lines = scores.transpose(1, 2).unsqueeze(2)  # (n, count, 1, positions)
    values, places = functional.max_pool2d(lines, (1, scores.shape[1]), return_indices=True)
    return values.flatten(1), places.flatten(1)
