"""Padded batches: ids in, layers out, for tasks and for code written against AllenNLP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from elmokit.errors import InputError
from elmokit.nn.bilm import BiLM
from elmokit.nn.packing import Packing
from elmokit.nn.state import BiLMState


@dataclass(frozen=True)
class TokenIds:
    """Ids of tokens, as far as the model reads them; every tensor has the same leading shape."""

    characters: Tensor | None = None  # (..., M)
    words: Tensor | None = None  # (...)

    def map(self, change: Callable[[Tensor], Tensor]) -> TokenIds:
        """The same change to every tensor that is there."""
        return TokenIds(*(None if ids is None else change(ids) for ids in (self.characters, self.words)))


@dataclass(frozen=True)
class PaddedLayers:
    """The layers of B sentences of up to T tokens, with their sentence marks."""

    layers: Tensor  # (L + 1, B, T + 2, 2D), zero at padding
    mask: Tensor  # (B, T + 2) true at tokens and marks
    state: BiLMState  # after each sentence, in the order of the batch

    def without_marks(self) -> tuple[Tensor, Tensor]:
        """Layers (L + 1, B, T, 2D) and mask (B, T) of the tokens alone."""
        mask = self.mask[:, 2:]
        return self.layers[:, :, 1:-1] * mask.unsqueeze(-1), mask


def read_padded(
    bilm: BiLM, ids: TokenIds, mask: Tensor, marks: TokenIds, state: BiLMState | None = None
) -> PaddedLayers:
    """Run the biLM over padded ids: each distinct token is encoded once, and padding costs nothing.

    ids: (B, T, ...); mask: (B, T), true for the first n tokens of a sentence; marks: (2, ...), at the start and
    end of every sentence; state: the initial state of each sentence, zero by default.
    """
    n_sentences, n_steps = mask.shape
    if not (mask[:, 1:] <= mask[:, :-1]).all():
        raise InputError("mask: expected the tokens of each sentence before its padding, found one after it")
    device = mask.device
    lengths = mask.sum(dim=1) + 2  # with the marks
    order = torch.argsort(lengths, descending=True, stable=True)
    packing = Packing.from_lengths(lengths[order].tolist(), device)

    distinct, inverse = _distinct(ids, mask, marks)
    grid = torch.zeros(n_sentences, n_steps + 2, dtype=torch.long, device=device)  # 0 and 1 are the marks
    grid[:, 1:-1][mask] = torch.arange(2, 2 + int(mask.sum()), device=device)
    grid[torch.arange(n_sentences, device=device), lengths - 1] = 1
    index = inverse[packing.pack(grid[order])]  # (N,)

    vectors = bilm.token_encoder(distinct.characters, distinct.words)
    output = bilm(vectors, index, packing, None if state is None else state.rows(order))
    rank = torch.argsort(order)
    layers = torch.stack([packing.pad(output.layer(j), n_steps + 2)[rank] for j in range(output.n_vectors)])
    with_marks = torch.arange(n_steps + 2, device=device) < lengths.unsqueeze(1)
    return PaddedLayers(layers, with_marks, output.state.rows(rank))


def _distinct(ids: TokenIds, mask: Tensor, marks: TokenIds) -> tuple[TokenIds, Tensor]:
    """The distinct rows among marks and tokens, and the index of each mark and token into them."""
    columns = []
    for of_tokens, of_marks in ((ids.characters, marks.characters), (ids.words, marks.words)):
        if of_tokens is not None and of_marks is not None:
            rows = torch.cat((of_marks, of_tokens[mask]))
            columns.append(rows if rows.dim() == 2 else rows.unsqueeze(1))
    rows, inverse = torch.unique(torch.cat(columns, dim=1), dim=0, return_inverse=True)
    characters = None if ids.characters is None else rows[:, : ids.characters.shape[-1]]
    return TokenIds(characters, None if ids.words is None else rows[:, -1]), inverse
