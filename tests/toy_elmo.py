"""A stand-in for Elmo whose vectors are worked out by hand: layer 0 of the word alone, the others of its neighbors."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from elmokit.embed.sentence import EmbeddedSentence
from elmokit.text.tokenizer import get_tokenizer, tokenize

DIM, N_LAYERS = 8, 3


@cache
def word_vector(word: str) -> np.ndarray:
    """(DIM,) that depends on the word alone."""
    return np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIM).astype(np.float32)


def token_layers(tokens: Sequence[str]) -> np.ndarray:
    """(N_LAYERS, n, DIM): the word; the word and the one before it; the words on both sides and not the word itself."""
    words = [np.zeros(DIM, np.float32), *map(word_vector, tokens), np.zeros(DIM, np.float32)]
    rows = range(1, len(tokens) + 1)
    layers = (
        [words[k] for k in rows],
        [words[k] + words[k - 1] for k in rows],
        [words[k - 1] + words[k + 1] + 0.01 for k in rows],
    )
    return np.array(layers, np.float32).reshape(N_LAYERS, len(tokens), DIM)


class ToyElmo:
    """As much of Elmo as the analyses need."""

    def __init__(self, *, state: str = "reset", fingerprint: str = "f" * 64) -> None:
        self.state = state
        self.config = SimpleNamespace(vector_dim=DIM, n_vectors=N_LAYERS)
        self.model = SimpleNamespace(fingerprint=fingerprint, files=(), format="toy")

    def embed(
        self,
        sentences: Iterable[str | Sequence[str]],
        *,
        layers: Any = "all",
        tokenizer: Any = "words",
        progress: bool | None = None,
    ) -> Iterator[EmbeddedSentence]:
        for sentence in sentences:
            if isinstance(sentence, str):
                tokens, _ = tokenize(sentence, get_tokenizer(tokenizer))
            else:
                tokens = list(sentence)
            array = token_layers(tokens)
            if layers == "average":
                array = array.mean(axis=0, keepdims=True)
            elif layers != "all":
                array = array[[layers]]
            yield EmbeddedSentence(tokens, array)
