"""Convolution over characters for CPUs: as sums of rows of a table, or as a matrix product over windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.nn.convolution import Convolution


class FastConvolution(Convolution):
    """`Convolution` on a CPU, over blocks of words, each block trimmed to its longest word."""

    kept_table: Tensor | None = None  # made by `tabulate_`

    def table(self, embedding: Tensor) -> Tensor:
        """Products of all character embeddings with all positions of the filters, (width * characters, count)."""
        with torch.autocast(embedding.device.type, enabled=False):  # few products, on which all sums depend
            filters = self.weight.view(self.width, embedding.shape[1], -1)
            return torch.bmm(embedding.expand(self.width, -1, -1), filters).flatten(0, 1)

    def tabulate_(self, embedding: Tensor) -> None:
        """Compute the table once, for inference."""
        self.kept_table = self.table(embedding).detach()

    def look_up(self, blocks: Sequence[Tensor], table: Tensor) -> Tensor:
        """Convolve character ids, blocks of (n, positions), by adding rows of `table`. Returns (all n, count)."""
        largest: Tensor = LargestSum.apply(table, self.width, *blocks)  # type: ignore[no-untyped-call]
        return largest + self.bias

    def windows(self, blocks: Sequence[Tensor]) -> Tensor:
        """Convolve character vectors, blocks of (n, positions, e), as matrix products. Returns (all n, count)."""
        return torch.cat([self._largest_answer(characters) for characters in blocks]) + self.bias

    def _largest_answer(self, characters: Tensor) -> Tensor:
        windows = characters.unfold(1, self.width, 1).transpose(2, 3)  # (n, positions - width + 1, width, e)
        rows = windows.reshape(-1, len(self.weight))  # (n * (positions - width + 1), width * e)
        scores = (rows @ self.weight).view(*windows.shape[:2], -1)  # (n, positions - width + 1, count)
        return _largest(scores)[0] if scores.requires_grad else scores.amax(dim=1)


class LargestSum(torch.autograd.Function):
    """y_f = max over p of sum over k of table[k, ids[p + k], f].

    Only the position of the maximum has a gradient, so the backward pass is cheap: it adds the gradient of each maximum
    to the table rows that it was summed from.
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
        """Gradient of the table, from that of y."""
        n_blocks = len(ctx.saved_tensors) // 2
        blocks, places = ctx.saved_tensors[:n_blocks], ctx.saved_tensors[n_blocks:]
        # One row per filter, so that its sums are contiguous, and torch can parallelize over the filters
        sums = grad.new_zeros(grad.shape[1], ctx.width * ctx.n_characters)
        parts = sums.split(ctx.n_characters, dim=1)  # type: ignore[no-untyped-call]
        for ids, place, d in zip(blocks, places, grad.split([len(ids) for ids in blocks]), strict=True):  # type: ignore[no-untyped-call]
            d = d.t().contiguous()  # (count, n)
            first = torch.arange(0, ids.numel(), ids.shape[1], device=ids.device)  # each word's offset in flat ids
            window = torch.add(place.t(), first, out=torch.empty_like(d, dtype=torch.long))
            characters, there = ids.flatten().expand(len(d), -1), torch.empty_like(window)
            for k, part in enumerate(parts):
                torch.gather(characters[:, k:], 1, window, out=there)  # the character at each window's k-th place
                part.scatter_add_(1, there, d)
        return sums.t(), None, *(None for _ in blocks)


def _largest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima of (n, positions, count) over all positions, and their indices; both (n, count).

    As max-pooling of an image one pixel high in channels-last layout, which is many times faster in torch than
    `max(dim=1)`. (Without indices, `amax` is the fastest.)
    """
    lines = scores.transpose(1, 2).unsqueeze(2)  # (n, count, 1, positions)
    values, places = functional.max_pool2d(lines, (1, scores.shape[1]), return_indices=True)
    return values.flatten(1), places.flatten(1)
