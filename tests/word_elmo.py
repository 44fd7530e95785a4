"""A stand-in for Elmo with vectors that can be worked out by hand: of the word, and of the word before it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np

from elmokit.embed.sentence import EmbeddedSentence

DIM = 6


def word_vector(word: str) -> np.ndarray:
    """(DIM,) that depends on the word alone; like a model's, a number in 32 bits."""
    return np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIM).astype(np.float32)


class WordElmo:
    """Layer 0 knows the word, layer 1 the word before it (a sentence starts with ^)."""

    def __init__(self) -> None:
        self.config = SimpleNamespace(n_vectors=2, vector_dim=DIM)

    def embed(self, sentences: Sequence[Sequence[str]], *, progress: bool | None = None) -> Iterator[EmbeddedSentence]:
        for tokens in sentences:
            before = ["^", *tokens[:-1]] if tokens else []
            layers = np.zeros((2, len(tokens), DIM), np.float32)
            for t, (word, last) in enumerate(zip(tokens, before, strict=True)):
                layers[:, t] = word_vector(word), word_vector(last)
            yield EmbeddedSentence(list(tokens), layers)
