"""A word to its context-free vector: characters, convolutions, highways, projection; or a row of a word table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import ModelConfig
from elmokit.nn.convolution import TABLE_NUMBERS, Convolution
from elmokit.nn.highway import Highway
from elmokit.nn.matmul import Matmul

BLOCK_WORDS = 256  # words convolved at a time: bounds memory, and lets short words be cut short
CHUNK_WORDS = 8 * BLOCK_WORDS  # words that go through the highways at a time: large matrix products, bounded memory


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

    def tabulate_(self) -> None:
        """Make the convolutions' tables, some megabytes, once and for all; for inference on a CPU."""
        if self._tabulates():
            for convolution in self.convolutions:
                cast(Convolution, convolution).tabulate_(self.char_embedding)

    def _tabulates(self) -> bool:
        """Whether tables of all characters are worth making: on a CPU, if they are small."""
        chars = self.config.char_cnn
        if chars is None or self.char_embedding.device.type != "cpu":
            return False
        return chars.n_characters * sum(width * n for width, n in chars.filters) <= TABLE_NUMBERS

    def forward(self, characters: Tensor | None, words: Tensor | None) -> Tensor:
        """characters: (n, M) ids, words: (n,) ids, each where the model has that input. Returns (n, D)."""
        assert words is not None or not self.config.n_words, "this model needs word ids"
        if self.config.char_cnn is None:
            return self._encode(None, words)
        assert characters is not None, "this model needs character ids"
        lengths = (characters != characters[:, -1:]).sum(dim=1)  # (n,) characters; a row ends in a run of padding
        order = torch.argsort(lengths, stable=True)
        layers = [cast(Convolution, convolution) for convolution in self.convolutions]
        tables = [layer.kept for layer in layers]
        if tables[0] is None and self._tabulates():
            tables = [layer.table(self.char_embedding) for layer in layers]
        chunks = []
        for rows in order.split(CHUNK_WORDS):  # type: ignore[no-untyped-call]
            chunks.append(
                self._encode(self._read(characters, lengths, rows, tables), None if words is None else words[rows])
            )
        vectors = _joined(chunks)
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(len(order), device=order.device)
        return vectors[inverse]

    def _encode(self, features: Tensor | None, words: Tensor | None) -> Tensor:
        """What convolutions found in n words, (n, F), and their ids, (n,), to (n, D)."""
        parts = []
        if self.config.n_words:
            parts.append(functional.embedding(cast(Tensor, words), self.word_embedding))
        if features is not None:
            for highway in self.highways:
                features = highway(features)
            parts.append(cast(Tensor, features))
        x = _joined(parts, dim=1)
        return self.projection(x, self.projection_bias) if self.config.has_token_projection else x

    def _read(self, characters: Tensor, lengths: Tensor, rows: Tensor, tables: Sequence[Tensor | None]) -> Tensor:
        """Convolve some words, in the order of their lengths, block by block: (n, F)."""
        # past the widest filter more padding cannot change a maximum
        widest = max(layer.width for layer in self.convolutions)  # type: ignore[type-var]
        blocks = []
        for block in rows.split(BLOCK_WORDS):  # type: ignore[no-untyped-call]
            longest = min(characters.shape[1], int(lengths[block[-1]]) + widest)  # type: ignore[operator]
            blocks.append(characters[block, :longest])
        layers = [cast(Convolution, layer) for layer in self.convolutions]
        if tables[0] is not None:
            answers = [layer.look_up(blocks, cast(Tensor, table)) for layer, table in zip(layers, tables, strict=True)]
        else:
            vectors = [functional.embedding(ids, self.char_embedding) for ids in blocks]  # (n, positions, e)
            answers = [layer(vectors) for layer in layers]
        pooled = torch.cat(answers, dim=1)
        return torch.tanh(pooled) if self.config.char_cnn.activation == "tanh" else functional.relu(pooled)  # type: ignore[union-attr]


def _joined(parts: list[Tensor], dim: int = 0) -> Tensor:
    """One tensor of one or more; one alone is not copied."""
    return torch.cat(parts, dim=dim) if len(parts) > 1 else parts[0]
