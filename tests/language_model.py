"""The slow twin of prediction: what the oracle's LSTMs say of the next word; and small models that have a softmax."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import models
import numpy as np
import oracle

WORDS = ("<S>", "</S>", "<UNK>", "the", ".", "cat", "sat", "on", "mat", ",", "a", "stick", "to")


@dataclass
class SmallModel:
    """A model as files, and its numbers."""

    folder: Path
    options: dict[str, Any]
    weights: dict[str, np.ndarray]
    w: np.ndarray  # (V, D)
    b: np.ndarray  # (V,)
    words: tuple[str, ...]

    def read(self, words: list[str], direction: int, state: oracle.OracleState | None = None) -> list[np.ndarray]:
        """The last layer's output (D,) after each word, in the order of reading: for direction 1, words reversed."""
        lstm = self.options["lstm"]
        state = oracle.OracleState() if state is None else state
        x = [oracle.token_vector(word, self.options, self.weights, self.words) for word in words]
        for layer in range(lstm["n_layers"]):
            c, m = state.get((direction, layer), (np.zeros(lstm["dim"]), np.zeros(lstm["projection_dim"])))
            result = []
            for vector in x:
                c, m = oracle.lstm_step(vector, c, m, self.options, self.weights, oracle.lstm_name(direction, layer))
                result.append(m + vector if layer > 0 and lstm["use_skip_connections"] else m)
            state[direction, layer] = (c, m)
            x = result
        return x

    def log_p(self, x: np.ndarray) -> np.ndarray:
        """(V,)"""
        scores = self.w.astype(float) @ x + self.b
        return scores - np.log(np.exp(scores).sum())

    def losses(self, tokens: list[str], direction: int, state: oracle.OracleState | None = None) -> list[float]:
        """-log p of each word and of the sentence's far mark."""
        sentence = ["<S>", *tokens, "</S>"]
        if direction == 1:
            sentence.reverse()
        unknown = self.words.index("<UNK>")
        ids = [self.words.index(word) if word in self.words else unknown for word in sentence[1:]]
        outputs = self.read(sentence[:-1], direction, state)
        return [-self.log_p(x)[word] for x, word in zip(outputs, ids, strict=True)]


def write(folder: Path, variant: str = "usual", words: tuple[str, ...] = WORDS, seed: int = 0) -> SmallModel:
    """The files of a random model with softmax and vocabulary."""
    options, weights = oracle.random_model(np.random.default_rng(seed), **models.VARIANTS[variant])
    models.write(folder, options, weights)
    rng = np.random.default_rng(seed + 1)
    w = rng.standard_normal((len(words), options["lstm"]["projection_dim"])).astype(np.float32)
    b = rng.standard_normal(len(words)).astype(np.float32)
    with h5py.File(folder / "softmax_weights.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = w, b
    (folder / "vocabulary.txt").write_text("".join(f"{word}\n" for word in words))
    return SmallModel(folder, options, weights, w, b, words)
