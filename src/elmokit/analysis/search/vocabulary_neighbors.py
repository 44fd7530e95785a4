"""Words whose context-free vectors (layer 0) are nearest to that of a word."""

from __future__ import annotations

import numpy as np

from elmokit.analysis.search.static_vectors import NearWord
from elmokit.analysis.search.vector_files import unit
from elmokit.analysis.shared.frequent_words import frequent_words
from elmokit.embed.elmo import Elmo

NEIGHBOR_WORDS = 5000


class VocabularyNeighbors:
    """Nearest frequent words by the cosine of layer 0, which knows the spelling alone."""

    def __init__(self, elmo: Elmo) -> None:
        self._elmo = elmo
        self.words = frequent_words(elmo.model, NEIGHBOR_WORDS)
        sentences = elmo.embed([[word] for word in self.words], layers=0)
        vectors = [sentence.vectors[0] for sentence in sentences]
        self._vectors = unit(np.stack(vectors)) if vectors else np.zeros((0, elmo.config.vector_dim), np.float32)

    def find(self, word: str, k: int = 10) -> list[NearWord]:
        """The k nearest other words, best first."""
        (sentence,) = self._elmo.embed([[word]], layers=0)
        scores = self._vectors @ unit(sentence.vectors)[0]
        scores[[row for row, other in enumerate(self.words) if other == word]] = -np.inf
        best = np.argsort(-scores, kind="stable")[:k]
        return [NearWord(self.words[row], float(scores[row])) for row in best if np.isfinite(scores[row])]
