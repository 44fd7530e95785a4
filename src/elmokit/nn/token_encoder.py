"""Token encoder: the context-free vector of a word, from its characters, a word table, or both."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import ModelConfig
from elmokit.nn.convolution import Convolution
from elmokit.nn.highway import Highway
from elmokit.nn.matmul import Matmul

WORDS_AT_ONCE = 1024  # words convolved at a time, to bound memory


class TokenEncoder(nn.Module):
    """v = [word row; highway(activation(max_pool(convolve(characters))))] W + b.

    Published models have the character part only; ELMoForManyLangs puts a word table before it; word-input models and
    files of pre-computed token vectors have the table alone. Peters et al. 2018, section 3; Kim et al. 2016.
    """

    def __init__(self, *, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        if config.n_words:
            self.word_embedding = nn.Parameter(torch.empty(config.n_words, config.word_dim))
        chars = config.char_cnn
        if chars is not None:
            self.char_embedding = nn.Parameter(torch.empty(chars.n_characters, chars.embedding_dim))
            self.convolutions = nn.ModuleList(
                Convolution(width=width, channels=chars.embedding_dim, count=count) for width, count in chars.filters
            )
            self.highways = nn.ModuleList(Highway(size=chars.n_filters) for _ in range(chars.n_highway))
        if config.has_token_projection:
            self.projection = Matmul(n_in=config.token_dim, n_out=config.lstm.projection_dim)
            self.projection_bias = nn.Parameter(torch.empty(config.lstm.projection_dim))

    def forward(self, characters: Tensor | None, words: Tensor | None) -> Tensor:
        """characters: (n, M) ids, words: (n,) ids, each where the model has that input. Returns (n, D)."""
        assert words is not None or not self.config.n_words, "this model needs word ids"
        if self.config.char_cnn is None:
            return self.combine(None, words)
        assert characters is not None, "this model needs character ids"
        parts = [self.convolve(ids) for ids in characters.split(WORDS_AT_ONCE)]  # type: ignore[no-untyped-call]
        return self.combine(torch.cat(parts), words)

    def convolve(self, characters: Tensor) -> Tensor:
        """(n, M) character ids to (n, F) features."""
        x = functional.embedding(characters, self.char_embedding)  # (n, M, e)
        return self.activate(torch.cat([convolution(x) for convolution in self.convolutions], dim=1))

    def activate(self, x: Tensor) -> Tensor:
        """The nonlinearity after the pooling."""
        assert self.config.char_cnn is not None
        return torch.tanh(x) if self.config.char_cnn.activation == "tanh" else functional.relu(x)

    def combine(self, features: Tensor | None, words: Tensor | None) -> Tensor:
        """Features (n, F) of characters, and word ids (n,), to (n, D)."""
        parts = []
        if self.config.n_words:
            parts.append(functional.embedding(cast(Tensor, words), self.word_embedding))
        if features is not None:
            for highway in self.highways:
                features = highway(features)
            parts.append(cast(Tensor, features))
        x = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return self.projection(x, self.projection_bias) if self.config.has_token_projection else x
