"""Two sentences word by word: is it the same word to the model?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.layers import View, views
from elmokit.analysis.occurrence import Occurrence, find_word
from elmokit.analysis.vector_files import unit
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError


@dataclass(frozen=True)
class Comparison:
    """The cosines between the tokens of two sentences of n and m tokens."""

    first: Occurrence
    second: Occurrence
    views: tuple[View, ...]  # every layer, and their average
    matrices: NDArray[np.floating] = field(repr=False)  # (views, n, m)

    @property
    def similarities(self) -> dict[str, float]:
        """Of the two occurrences, by view."""
        at_words = self.matrices[:, self.first.position, self.second.position]
        return {view.name: float(value) for view, value in zip(self.views, at_words, strict=True)}

    def matrix(self, name: str) -> NDArray[np.floating]:
        """(n, m) of one view, by its name."""
        matrix: NDArray[np.floating] = self.matrices[[view.name for view in self.views].index(name)]
        return matrix

    def to_json(self) -> dict[str, Any]:
        """Names and numbers alone."""
        return {
            "first": {"sentence": list(self.first.tokens), "position": self.first.position},
            "second": {"sentence": list(self.second.tokens), "position": self.second.position},
            "similarity": self.similarities,
            "pairs": {view.name: matrix.tolist() for view, matrix in zip(self.views, self.matrices, strict=True)},
        }


def compare(elmo: Elmo, first: str, second: str, words: Sequence[str], *, tokenizer: str = "words") -> Comparison:
    """Compare a word in two sentences, and all their words with each other. `words`: one for both, or one for each."""
    if not 1 <= len(words) <= 2:
        raise ConfigError(f"--word: expected one word for both sentences, or one for each, found {len(words)}")
    a, b = elmo.embed([first, second], tokenizer=tokenizer)
    chosen = views("all", elmo.config.n_vectors)
    matrices = [unit(view.of(a.layers)) @ unit(view.of(b.layers)).T for view in chosen]
    return Comparison(
        find_word(a.tokens, words[0]), find_word(b.tokens, words[-1]), tuple(chosen), np.stack(matrices)
    )  # fmt: skip
