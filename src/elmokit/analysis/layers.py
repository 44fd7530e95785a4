"""Which vectors an analysis looks at, and the stream of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.embed.elmo import Elmo
from elmokit.embed.run import Progress
from elmokit.errors import ConfigError

BLOCK_TOKENS = 4096  # at a time: enough that what is done with them costs little beside the network


@dataclass(frozen=True)
class View:
    """One vector a token: that of a layer, what a layer adds to another, or the average of all."""

    name: str  # "layer 0", ..., "layer 2 - 1", "average"
    layer: int | None  # None is the average
    minus: int | None = None  # a layer to take away: of one with a residual connection, its LSTM's own output is left

    def of(self, layers: NDArray[np.floating]) -> NDArray[np.floating]:
        """(..., 2D) out of (L + 1, ..., 2D)."""
        vectors: NDArray[np.floating] = layers.mean(axis=0) if self.layer is None else layers[self.layer]
        return vectors if self.minus is None else vectors - layers[self.minus]


def views(choice: str, n_layers: int) -> list[View]:
    """What `--layers` names: "all" is every layer and their average; else a list of numbers, `top` and `average`.

    `2-1` is what layer 2 adds to layer 1.
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
                f"--layers: expected all, or some of 0 to {n_layers - 1}, top, average, as 1,2,average, or 2-1 for "
                f"what layer 2 adds to layer 1, found {name!r}"
            )
        found[view.name] = view
    return list(found.values())


class Moments:
    """Mean and standard deviation of every dimension of V views, of tokens that come in blocks."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: NDArray[np.float64] | float = 0.0
        self._squares: NDArray[np.float64] | float = 0.0

    def add(self, vectors: NDArray[np.floating]) -> None:
        """(V, n, 2D). Sums are in 64 bits."""
        self._count += vectors.shape[1]
        self._sum = self._sum + vectors.sum(axis=1, dtype=np.float64)
        self._squares = self._squares + np.square(vectors, dtype=np.float64).sum(axis=1)

    @property
    def mean(self) -> NDArray[np.float64]:
        """(V, 2D)."""
        return np.asarray(self._sum / max(self._count, 1))

    @property
    def deviation(self) -> NDArray[np.float64]:
        """(V, 2D); 1 where nothing varies, so that it can be divided by."""
        deviation = np.sqrt(np.maximum(self._squares / max(self._count, 1) - np.square(self.mean), 0))
        return np.where(deviation < 1e-6, 1, deviation)


class Meter:
    """Counts what goes through the network, tells how far it is, and measures the speed."""

    def __init__(self, report: Callable[[Progress], None] | None, total: int) -> None:
        """total: tokens that there will be."""
        self._report, self._total = report, total
        self._since = time.monotonic()
        self.sentences = self.tokens = 0
        self.seconds = 0.0  # from each `begin` to the last count after it

    def begin(self) -> None:
        """A text begins; what was done since the last count is no part of the speed."""
        self._since = time.monotonic()

    def count(self, sentences: int, tokens: int) -> None:
        """So many more are done."""
        self.sentences, self.tokens = self.sentences + sentences, self.tokens + tokens
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now
        if self._report is not None:  # how much of the input is done is told in tokens here, which are known
            self._report(Progress(self.sentences, self.tokens, bytes_read=self.tokens, bytes_total=self._total))

    @property
    def tokens_per_second(self) -> float:
        """Of all that was counted."""
        return self.tokens / max(self.seconds, 1e-9)


def token_blocks(elmo: Elmo, sentences: Sequence[Sequence[str]], meter: Meter) -> Iterator[NDArray[np.floating]]:
    """(L + 1, n, 2D) of the tokens of all sentences, one after the other: whole sentences, some thousand tokens."""
    waiting: list[NDArray[np.floating]] = []
    count = 0
    meter.begin()
    for number, sentence in enumerate(elmo.embed(sentences), start=1):
        waiting.append(sentence.layers)
        count += len(sentence.tokens)
        if count >= BLOCK_TOKENS or number == len(sentences):
            yield np.concatenate(waiting, axis=1)
            meter.count(len(waiting), count)
            waiting, count = [], 0
