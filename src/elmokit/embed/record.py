"""What is kept of a sentence in a file of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Layout:
    """The shape of what is stored for each sentence."""

    dim: int  # length of a vector, 2D
    n_layers: int | None  # L + 1 where every layer is kept; None for one combination
    pooled: bool = False  # one vector a sentence instead of one a token
    dtype: Literal["float32", "float16"] = "float32"


@dataclass(frozen=True)
class Record:
    """One sentence as it is stored."""

    text: str
    tokens: list[str]
    offsets: list[tuple[int, int]] | None  # of each token in the text, where the tokenizer knows them
    vectors: NDArray[np.floating] = field(repr=False)  # (L + 1, n, 2D), (n, 2D), or (2D,) when pooled
