"""A stand-in for Elmo without a network: vectors hash the word, its place and, if carried, the words before it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from elmokit.embed.sentence import EmbeddedSentence
from elmokit.text.tokenizer import tokenize

DIM, N_LAYERS = 4, 3


class FakeElmo:
    """As much of Elmo as a run needs."""

    tokenizer = "words"

    def __init__(self, *, state: str = "reset", dtype: str = "float32", fingerprint: str = "f" * 64) -> None:
        self.state, self.dtype = state, dtype
        self.config = SimpleNamespace(vector_dim=DIM, n_vectors=N_LAYERS)
        self.model = SimpleNamespace(fingerprint=fingerprint)
        self.carried_state: list[np.ndarray] | None = None
        self.calls: list[list[str]] = []

    def embed(
        self,
        sentences: Iterable[str],
        *,
        layers: Any,
        tokenizer: Any,
        batch_size: int | None,
        batch_tokens: int | None,
        threads: int | None,
        progress: bool | None = None,
    ) -> Iterator[EmbeddedSentence]:
        sentences = list(sentences)
        if sentences:
            self.calls.append(sentences)
        return (self._one(text, layers, tokenizer) for text in sentences)

    def skip(
        self, sentences: Iterable[list[str]], *, layers: Any, batch_size: int | None, batch_tokens: int | None
    ) -> None:
        assert all(isinstance(tokens, list) for tokens in sentences)

    def _one(self, text: str, layers: Any, tokenizer: Any) -> EmbeddedSentence:
        tokens, offsets = tokenize(text, tokenizer)
        before = int(self.carried_state[0][0, 0]) if self.state == "carry" and self.carried_state else 0
        count = N_LAYERS if layers == "all" else 1
        array = np.zeros((count, len(tokens), DIM), np.float32)
        for place, token in enumerate(tokens):
            seed = zlib.crc32(f"{token} {place} {before} {layers}".encode())
            array[:, place] = np.random.default_rng(seed).standard_normal((count, DIM))
            if self.state == "carry":
                before = (before + seed) % 2**20
        if self.state == "carry":
            self.carried_state = [np.full((1, 2), before, np.float32), np.zeros((1, 3), np.float32)]
        return EmbeddedSentence(tokens, array, text, offsets)
