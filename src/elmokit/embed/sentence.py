"""What the engine gives back for a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import ConfigError

Pool = Literal["mean", "max"]


@dataclass
class EmbeddedSentence:
    """The tokens of one sentence and their vectors."""

    tokens: list[str]
    layers: NDArray[np.floating] = field(repr=False)  # (L + 1, n, 2D); (1, n, 2D) if one combination was asked for
    text: str | None = None  # the raw text, where the engine did the tokenising
    offsets: list[tuple[int, int]] | None = field(default=None, repr=False)  # of each token in the raw text

    @cached_property
    def vectors(self) -> NDArray[np.floating]:
        """(n, 2D): the combination of layers that was asked for; of all layers, their average."""
        # an untrained mix: equal weights, gamma 1
        vectors: NDArray[np.floating] = self.layers[0] if len(self.layers) == 1 else self.layers.mean(axis=0)
        return vectors

    def vector(self, pool: Pool = "mean", *, punctuation: bool = True) -> NDArray[np.floating]:
        """(2D,) one vector for the sentence; zeros if it has no tokens.

        Without punctuation, tokens that hold no letter and no digit do not count, unless there are no others.
        """
        if pool not in ("mean", "max"):
            raise ConfigError(f"pool: expected mean or max, found {pool!r}")
        vectors = self.vectors
        if not punctuation:
            words = [k for k, token in enumerate(self.tokens) if any(map(str.isalnum, token))]
            vectors = vectors[words] if words else vectors
        if not len(vectors):
            return np.zeros(vectors.shape[1], vectors.dtype)
        pooled: NDArray[np.floating] = vectors.mean(axis=0) if pool == "mean" else vectors.max(axis=0)
        return pooled
