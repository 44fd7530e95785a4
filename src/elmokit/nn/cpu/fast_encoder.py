"""Token encoder for CPUs: words are sorted by length, and trailing padding is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.nn.cpu.fast_convolution import FastConvolution
from elmokit.nn.token_encoder import TokenEncoder

TABLE_NUMBERS = 2**22  # elements of all tables, at most: 262 published characters fit, those of a Chinese model do not
BLOCK_WORDS = 256  # words convolved at a time: bounds memory, and lets blocks of short words be trimmed
CHUNK_WORDS = 8 * BLOCK_WORDS  # words that go through the highways at a time: large matrix products, bounded memory


class FastTokenEncoder(TokenEncoder):
    """`TokenEncoder` on a CPU: with tables of all characters times all filters where these are small."""

    def tabulate_(self) -> None:
        """Compute the tables of the convolutions, some megabytes, once, for inference."""
        if self._tabulates():
            for convolution in self._layers():
                convolution.tabulate_(self.char_embedding)

    def _tabulates(self) -> bool:
        chars = self.config.char_cnn
        return chars is not None and chars.n_characters * sum(w * n for w, n in chars.filters) <= TABLE_NUMBERS

    def _layers(self) -> list[FastConvolution]:
        return [cast(FastConvolution, convolution) for convolution in self.convolutions]

    def forward(self, characters: Tensor | None, words: Tensor | None) -> Tensor:
        """As `TokenEncoder.forward`."""
        if self.config.char_cnn is None or characters is None or characters.device.type != "cpu":
            return super().forward(characters, words)
        assert words is not None or not self.config.n_words, "this model needs word ids"
        lengths = (characters != characters[:, -1:]).sum(dim=1)  # (n,) characters; a row ends in a run of padding
        order = torch.argsort(lengths, stable=True)
        tables = [layer.kept_table for layer in self._layers()]
        if tables[0] is None and self._tabulates():
            tables = [layer.table(self.char_embedding) for layer in self._layers()]
        chunks = []
        for rows in order.split(CHUNK_WORDS):  # type: ignore[no-untyped-call]
            features = self._convolve_sorted(characters, lengths, rows, tables)
            chunks.append(self.combine(features, None if words is None else words[rows]))
        vectors = torch.cat(chunks) if len(chunks) > 1 else chunks[0]
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(len(order))
        return vectors[inverse]

    def _convolve_sorted(
        self, characters: Tensor, lengths: Tensor, rows: Tensor, tables: Sequence[Tensor | None]
    ) -> Tensor:
        """Features (n, F) of the words in `rows`, which are sorted by length."""
        layers = self._layers()
        # past the widest filter more padding cannot change a maximum
        widest = max(layer.width for layer in layers)
        blocks = []
        for block in rows.split(BLOCK_WORDS):  # type: ignore[no-untyped-call]
            longest = min(characters.shape[1], int(lengths[block[-1]]) + widest)
            blocks.append(characters[block, :longest])
        if tables[0] is not None:
            answers = [layer.look_up(blocks, cast(Tensor, table)) for layer, table in zip(layers, tables, strict=True)]
        else:
            vectors = [functional.embedding(ids, self.char_embedding) for ids in blocks]  # (n, positions, e)
            answers = [layer.windows(vectors) for layer in layers]
        return self.activate(torch.cat(answers, dim=1))
