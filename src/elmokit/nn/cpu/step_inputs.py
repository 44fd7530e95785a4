"""Input products of the LSTM steps, for training and inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from elmokit.nn.packing import Packing

# Input products are computed for this many numbers at a time: enough rows for the matrix product to be fast, few enough
# that a sentence of any length fits into memory.
NUMBERS_PER_BLOCK = 8 * 1024 * 1024


def step_inputs(
    product: Callable[[Tensor], Tensor], x: Tensor, index: Tensor | None, packing: Packing, width: int
) -> Iterator[Tensor]:
    """x W + b of every step, (n, width), valid until the next is asked for; x and index as in `FastLstmLayer.run`."""
    rows_per_block = max(1, NUMBERS_PER_BLOCK // width)
    if index is not None and len(x) <= min(packing.n_tokens, 4 * rows_per_block):
        table = product(x)  # (U, width): each distinct word once
        buffer = table.new_empty(packing.offsets[1], width)
        for start, stop in packing.steps():
            yield torch.index_select(table, 0, index[start:stop], out=buffer[: stop - start])
        return
    for steps in packing.blocks(rows_per_block):
        begin, end = steps[0][0], steps[-1][1]
        block = product(x[begin:end] if index is None else x[index[begin:end]])
        for start, stop in steps:
            yield block[start - begin : stop - begin]
