"""Group sentences into windows and into batches of similar lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")


def windows(items: Iterable[Item], size_of: Callable[[Item], int], max_total: int) -> Iterator[list[Item]]:
    """Group a stream into lists whose sizes add up to at most `max_total`; a larger item is a list of its own.

    An item of size 0 counts as 1, so that a window of empty sentences is bounded too.
    """
    window: list[Item] = []
    total = 0
    for item in items:
        size = max(1, size_of(item))
        if window and total + size > max_total:
            yield window
            window, total = [], 0
        window.append(item)
        total += size
    if window:
        yield window


def by_length(
    lengths: Sequence[int] | NDArray[np.int64], *, batch_tokens: int, batch_size: int | None = None
) -> list[NDArray[np.int64]]:
    """Batch sentences by descending length; each batch is an array of indices into `lengths`.

    A batch holds at most `batch_tokens` tokens, or a single longer sentence; with `batch_size`, it holds that many
    sentences of any length. Sentences of equal length keep their order. Empty sentences are left out.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    if batch_size is not None:
        return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    ends = np.cumsum(sizes[order])
    batches = []
    start, done = 0, 0  # sentences and tokens already batched
    while start < len(order):
        stop = max(start + 1, int(np.searchsorted(ends, done + batch_tokens, side="right")))
        batches.append(order[start:stop])
        start, done = stop, int(ends[stop - 1])
    return batches
