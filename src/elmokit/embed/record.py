"""Record of one sentence in a file of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RecordLayout:
    """The shape of what is stored for each sentence."""

    dim: int  # length of a vector, 2D
    n_layers: int | None  # L + 1 where every layer is kept; None for one combination
    pooled: bool = False  # one vector per sentence instead of one per token
    dtype: Literal["float32", "float16"] = "float32"


@dataclass(frozen=True)
class Record:
    """One sentence as it is stored."""

    text: str
    tokens: list[str]
    offsets: list[tuple[int, int]] | None  # of each token in the text, where the tokenizer knows them
    vectors: NDArray[np.floating] = field(repr=False)  # (L + 1, n, 2D), (n, 2D), or (2D,) when pooled
    line: int | None = None  # its line number in its file, from 1, if lines were split into sentences

    def facts(self) -> dict[str, Any]:
        """Data for matching vectors with words: tokens and, if known, offsets and the line."""
        facts: dict[str, Any] = {"tokens": self.tokens}
        if self.offsets is not None:
            facts["offsets"] = self.offsets
        if self.line is not None:
            facts["line"] = self.line
        return facts
