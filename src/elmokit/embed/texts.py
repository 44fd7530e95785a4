"""Whole texts as vectors: pooling, and cosines between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.embed.sentence import EmbeddedSentence, Pool
from elmokit.errors import ConfigError


def pooled(sentences: Iterable[EmbeddedSentence], pool: Pool, punctuation: bool, dim: int) -> NDArray[np.floating]:
    """(n, 2D): one row for each sentence; only the rows are kept in memory."""
    rows = [sentence.vector(pool, punctuation=punctuation) for sentence in sentences]
    return np.stack(rows) if rows else np.zeros((0, dim), np.float32)


def cosines(first: NDArray[np.floating], second: NDArray[np.floating]) -> Any:
    """Cosines between vectors (2D,) or the rows of (n, 2D): a float, a row or a matrix. That of a zero vector is 0."""
    for name, array in (("first", first), ("second", second)):
        if array.ndim not in (1, 2):
            raise ConfigError(f"{name}: expected vectors (2D,) or (n, 2D), found shape {array.shape}")
    if first.shape[-1] != second.shape[-1]:
        raise ConfigError(
            f"second: expected vectors of {first.shape[-1]} numbers, as first has, found {second.shape[-1]}"
        )
    matrix = _unit(np.atleast_2d(first)) @ _unit(np.atleast_2d(second)).T
    row = matrix if first.ndim == 2 else matrix[0]
    column = row if second.ndim == 2 else row[..., 0]
    return float(column) if column.ndim == 0 else column


def _unit(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    rows = rows.astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
