"""Winning n-gram of every character filter of the token encoder: the one that max-pooling selects."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from elmokit.analysis.shared.frequent_words import frequent_words
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError
from elmokit.nn.convolution import Convolution
from elmokit.text.characters import ByteCharacters, Characters
from elmokit.weights.model import Model

TYPICAL_WORDS = 500  # frequent words by which an activation is called strong or weak


class CharFilters:
    """The convolutions of a model's token encoder, with the places of their maxima."""

    def __init__(self, model: Model) -> None:
        characters = WordReader(model).characters
        if characters is None or model.config.char_cnn is None:
            raise ConfigError("model: expected one that reads characters, found one that reads whole words")
        self._characters: Characters = characters
        self._config = model.config.char_cnn
        self._encoder = model.bilm.token_encoder
        words = frequent_words(model, TYPICAL_WORDS)
        self._mean, self._deviation = np.zeros(self._config.n_filters), np.ones(self._config.n_filters)
        if words:
            typical = self._pool(words)[0]
            self._mean, self._deviation = typical.mean(axis=0), np.maximum(typical.std(axis=0), 1e-3)

    def explain(self, word: str) -> dict[str, Any]:
        """One entry per filter: its width, where in the word's symbols its winning n-gram starts, the activation
        there, and that activation in standard deviations above the mean over frequent words (`strengths`)."""
        activations, starts = self._pool([word])
        return {
            "word": word,
            "symbols": _symbols(word, self._characters),
            "widths": [width for width, count in self._config.filters for _ in range(count)],
            "starts": starts[0].tolist(),
            "activations": activations[0].tolist(),
            "strengths": ((activations[0] - self._mean) / self._deviation).tolist(),
        }

    @torch.inference_mode()
    def _pool(self, words: list[str]) -> tuple[NDArray[np.floating], NDArray[np.integer]]:
        """Activations and places of the maxima, (n, F) each."""
        embedding = self._encoder.char_embedding
        ids = torch.from_numpy(self._characters.encode(words)).to(embedding.device)
        vectors = functional.embedding(ids, embedding)
        values, places = [], []
        for layer in self._encoder.convolutions:
            assert isinstance(layer, Convolution)
            windows = vectors.unfold(1, layer.width, 1).transpose(2, 3).flatten(2)  # (n, positions, width * e)
            best = (windows @ layer.weight + layer.bias).max(dim=1)
            values.append(best.values)
            places.append(best.indices)
        pooled = torch.cat(values, dim=1)
        activated = torch.tanh(pooled) if self._config.activation == "tanh" else functional.relu(pooled)
        return activated.float().cpu().numpy(), torch.cat(places, dim=1).cpu().numpy()


def _symbols(word: str, characters: Characters) -> list[dict[str, Any]]:
    """One entry per character id up to the end of the word: its text, and the index of the character it belongs to."""
    inner: list[dict[str, Any]] = []
    room = characters.max_characters - 2
    if word in (characters.begin, characters.end):
        inner.append({"text": word, "char": 0})
    else:
        for char, text in enumerate(word):
            n_ids = len(text.encode("utf-8", "ignore")) if isinstance(characters, ByteCharacters) else 1
            inner += [{"text": "" if k else text, "char": char} for k in range(n_ids)]
            if len(inner) >= room:
                break
    return [{"text": "^", "char": -1}, *inner[:room], {"text": "$", "char": -2}]
