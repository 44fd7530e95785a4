"""Cosine similarities between the words of two sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.search.vector_files import unit
from elmokit.analysis.shared.layers import View, views
from elmokit.analysis.shared.occurrence import Occurrence, find_word
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError


@dataclass(frozen=True)
class WordSimilarity:
    """Cosines between the tokens of two sentences of n and m tokens."""

    first: Occurrence
    second: Occurrence
    views: tuple[View, ...]  # every layer and their average
    matrices: NDArray[np.floating] = field(repr=False)  # (views, n, m)

    @property
    def similarities(self) -> dict[str, float]:
        """Cosine of the two occurrences, by view."""
        at_words = self.matrices[:, self.first.position, self.second.position]
        return {view.name: float(value) for view, value in zip(self.views, at_words, strict=True)}

    def matrix(self, name: str) -> NDArray[np.floating]:
        """Cosines (n, m) of one view, by its name."""
        matrix: NDArray[np.floating] = self.matrices[[view.name for view in self.views].index(name)]
        return matrix

    def to_json(self) -> dict[str, Any]:
        """JSON-serializable form."""
        return {
            "first": {"sentence": list(self.first.tokens), "position": self.first.position},
            "second": {"sentence": list(self.second.tokens), "position": self.second.position},
            "similarity": self.similarities,
            "pairs": {view.name: matrix.tolist() for view, matrix in zip(self.views, self.matrices, strict=True)},
        }


def compare(
    elmo: Elmo, first: str, second: str, words: Sequence[str], *, tokenizer: str = "words", substring: bool = False
) -> WordSimilarity:
    """Compare a word in two sentences, and all their words with each other.

    words: one for both, or one for each. substring: a word may be a part of a token.
    """
    if not 1 <= len(words) <= 2:
        raise ConfigError(f"--word: expected one word for both sentences, or one for each, found {len(words)}")
    a, b = elmo.embed([first, second], tokenizer=tokenizer)
    chosen = views("all", elmo.config.n_vectors)
    matrices = [unit(view.of(a.layers)) @ unit(view.of(b.layers)).T for view in chosen]
    return WordSimilarity(
        find_word(a.tokens, words[0], substring=substring),
        find_word(b.tokens, words[-1], substring=substring),
        tuple(chosen),
        np.stack(matrices),
    )
