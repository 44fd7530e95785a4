"""Layer views of an analysis, and streams of layer vectors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.embed.elmo import Elmo
from elmokit.embed.embed_files import Progress
from elmokit.errors import ConfigError

BLOCK_TOKENS = 4096  # tokens per block: enough that processing is cheap relative to the network


@dataclass(frozen=True)
class View:
    """One vector per token: a layer, the difference of two layers, or the average of all layers."""

    name: str  # "layer 0", ..., "layer 2 - 1", "average"
    layer: int | None  # None for the average
    minus: int | None = None  # layer to subtract: for a layer with a residual connection, this leaves its LSTM output

    def of(self, layers: NDArray[np.floating]) -> NDArray[np.floating]:
        """Select (..., 2D) from (L + 1, ..., 2D)."""
        vectors: NDArray[np.floating] = layers.mean(axis=0) if self.layer is None else layers[self.layer]
        return vectors if self.minus is None else vectors - layers[self.minus]


def views(choice: str, n_layers: int) -> list[View]:
    """Parse `--layers`: "all" is every layer and their average; otherwise a list of numbers, `top` and `average`.

    `2-1` is the difference of layers 2 and 1.
    """
    if choice == "all":
        return [*(View(f"layer {j}", j) for j in range(n_layers)), View("average", None)]
    found: dict[str, View] = {}
    for word in choice.split(","):
        name = word.strip()
        if name == "average":
            view = View("average", None)
        elif name == "top" or (name.isdecimal() and int(name) < n_layers):
            layer = n_layers - 1 if name == "top" else int(name)
            view = View(f"layer {layer}", layer)
        elif (pair := re.fullmatch("([0-9]+)-([0-9]+)", name)) and n_layers > int(pair[1]) > int(pair[2]):
            layer, minus = int(pair[1]), int(pair[2])
            view = View(f"layer {layer} - {minus}", layer, minus)
        else:
            raise ConfigError(
                f"--layers: expected all, or some of 0 to {n_layers - 1}, top, average, such as 1,2,average, or 2-1 "
                f"for what layer 2 adds to layer 1, found {name!r}"
            )
        found[view.name] = view
    return list(found.values())


class Moments:
    """Streaming mean and standard deviation per dimension, for V views."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: NDArray[np.float64] | float = 0.0
        self._squares: NDArray[np.float64] | float = 0.0

    def add(self, vectors: NDArray[np.floating]) -> None:
        """Add a block (V, n, 2D); sums are in float64."""
        self._count += vectors.shape[1]
        self._sum = self._sum + vectors.sum(axis=1, dtype=np.float64)
        self._squares = self._squares + np.square(vectors, dtype=np.float64).sum(axis=1)

    @property
    def mean(self) -> NDArray[np.float64]:
        """(V, 2D)."""
        return np.asarray(self._sum / max(self._count, 1))

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation (V, 2D); 1 for constant dimensions, to allow division."""
        deviation = np.sqrt(np.maximum(self._squares / max(self._count, 1) - np.square(self.mean), 0))
        return np.where(deviation < 1e-6, 1, deviation)


class Meter:
    """Counts the tokens embedded, reports progress and measures throughput."""

    def __init__(self, report: Callable[[Progress], None] | None, total: int) -> None:
        """total: expected number of tokens."""
        self._report, self._total = report, total
        self._since = time.monotonic()
        self.sentences = self.tokens = 0
        self.seconds = 0.0  # sum of the times from each `begin` to the last count after it

    def begin(self) -> None:
        """Start a text; time since the last count does not enter the throughput."""
        self._since = time.monotonic()

    def count(self, sentences: int, tokens: int) -> None:
        """Count further tokens."""
        self.sentences, self.tokens = self.sentences + sentences, self.tokens + tokens
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now
        if self._report is not None:  # progress is in tokens, whose total is known here
            self._report(Progress(self.sentences, self.tokens, bytes_read=self.tokens, bytes_total=self._total))

    @property
    def tokens_per_second(self) -> float:
        """Throughput over all counted tokens."""
        return self.tokens / max(self.seconds, 1e-9)


def token_blocks(elmo: Elmo, sentences: Sequence[Sequence[str]], meter: Meter) -> Iterator[NDArray[np.floating]]:
    """Yield layers (L + 1, n, 2D) in blocks of whole sentences, a few thousand tokens each."""
    waiting: list[NDArray[np.floating]] = []
    count = 0
    meter.begin()
    for number, sentence in enumerate(elmo.embed(sentences, progress=False), start=1):
        waiting.append(sentence.layers)
        count += len(sentence.tokens)
        if count >= BLOCK_TOKENS or number == len(sentences):
            yield np.concatenate(waiting, axis=1)
            meter.count(len(waiting), count)
            waiting, count = [], 0
