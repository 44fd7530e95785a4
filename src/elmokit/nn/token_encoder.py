"""A word to its context-free vector: characters, convolutions, highways, projection; or a row of a word table."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import ModelConfig
from elmokit.nn.matmul import Matmul

BLOCK_WORDS = 256  # words convolved at a time: bounds memory, and lets short words be cut short


class Convolution(nn.Module):
    """All windows of one width times all filters of that width: a convolution as one matrix product."""

    def __init__(self, *, width: int, channels: int, count: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(width * channels, count))
        self.bias = nn.Parameter(torch.empty(count))

    def forward(self, characters: Tensor) -> Tensor:
        """(n, positions, e) to (n, count): the largest answer of each filter over all positions, plus bias."""
        windows = characters.unfold(1, self.width, 1).transpose(2, 3)  # (n, positions - width + 1, width, e)
        rows = windows.reshape(-1, len(self.weight))  # (n * (positions - width + 1), width * e)
        scores = (rows @ self.weight).view(*windows.shape[:2], -1)  # (n, positions - width + 1, count)
        return scores.amax(dim=1) + self.bias


class Highway(nn.Module):
    """y = g relu(x W_t + b_t) + (1 - g) x, with g = sigmoid(x W_g + b_g) (Srivastava et al. 2015).

    As in the published files the gate opens the transform, though it is called "carry" there.
    """

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.gate = Matmul(n_in=size, n_out=size)
        self.gate_bias = nn.Parameter(torch.empty(size))
        self.transform = Matmul(n_in=size, n_out=size)
        self.transform_bias = nn.Parameter(torch.empty(size))

    def forward(self, x: Tensor) -> Tensor:
        """(n, F) to (n, F)."""
        g = torch.sigmoid(self.gate(x, self.gate_bias))
        t = functional.relu(self.transform(x, self.transform_bias))
        return torch.lerp(x, t, g)


class TokenEncoder(nn.Module):
    """Any string has a vector: v = [word row; highway(activation(max_pool(convolve(characters))))] W + b.

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
        features = []
        if self.config.n_words:
            assert words is not None, "this model needs word ids"
            features.append(functional.embedding(words, self.word_embedding))
        if self.config.char_cnn is not None:
            assert characters is not None, "this model needs character ids"
            features.append(self._read_characters(characters))
        x = torch.cat(features, dim=1) if len(features) > 1 else features[0]
        return self.projection(x, self.projection_bias) if self.config.has_token_projection else x

    def _read_characters(self, characters: Tensor) -> Tensor:
        """(n, M) ids to (n, F), block by block from the shortest word to the longest."""
        # A row ends in a run of one id, the padding. Past the widest filter more of it cannot change a maximum.
        lengths = (characters != characters[:, -1:]).sum(dim=1)  # (n,) characters that are not padding
        order = torch.argsort(lengths, stable=True)
        widest = max(width for width, _ in self.config.char_cnn.filters)  # type: ignore[union-attr]
        blocks = []
        for first in range(0, len(order), BLOCK_WORDS):
            rows = order[first : first + BLOCK_WORDS]
            longest = min(characters.shape[1], int(lengths[rows[-1]]) + widest)
            blocks.append(self._convolve(characters[rows, :longest]))
        features = torch.cat(blocks) if len(blocks) > 1 else blocks[0]
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(len(order), device=order.device)
        return features[inverse]

    def _convolve(self, ids: Tensor) -> Tensor:
        characters = functional.embedding(ids, self.char_embedding)  # (n, positions, e)
        pooled = torch.cat([convolution(characters) for convolution in self.convolutions], dim=1)  # (n, F)
        x = torch.tanh(pooled) if self.config.char_cnn.activation == "tanh" else functional.relu(pooled)  # type: ignore[union-attr]
        for highway in self.highways:
            x = highway(x)
        return x
