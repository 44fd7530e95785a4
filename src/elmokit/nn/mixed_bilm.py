"""ELMo module for the input or output of a task network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from elmokit.errors import InputError
from elmokit.nn.bilm import BiLM
from elmokit.nn.padded import TokenIds, read_padded
from elmokit.nn.scalar_mix import ScalarMix


@dataclass(frozen=True)
class ElmoOutput:
    """Representations of a batch of B sentences of up to T tokens."""

    representations: list[Tensor]  # one (B, T, 2D) per mix, zero at padding
    mask: Tensor  # (B, T) true at tokens


class MixedBiLM(nn.Module):
    """Learned mixes over one biLM that is frozen, or fine-tuned with the task.

    Every sentence starts from zero state, so that equal sentences get equal vectors. For layers that were computed in
    advance, call `mix` instead of `forward`.
    """

    mark_characters: Tensor | None
    mark_words: Tensor | None

    def __init__(
        self,
        bilm: BiLM,
        *,
        marks: TokenIds,
        n_mixes: int = 1,
        dropout: float = 0.5,
        layer_norm: bool = False,
        top_only: bool = False,
        trainable: bool = False,
    ) -> None:
        """marks: ids of the start and end mark, characters (2, M) and words (2,), as far as the model reads them."""
        super().__init__()
        self.bilm = bilm.requires_grad_(trainable)
        self.trainable = trainable
        self.register_buffer("mark_characters", marks.characters, persistent=False)
        self.register_buffer("mark_words", marks.words, persistent=False)
        self.mixes = nn.ModuleList(
            ScalarMix(n_layers=bilm.config.n_vectors, layer_norm=layer_norm, top_only=top_only) for _ in range(n_mixes)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: TokenIds, mask: Tensor | None = None) -> ElmoOutput:
        """ids: characters (B, T, M) and words (B, T); mask: (B, T), by default where any character id is above 0.

        Padding comes after a sentence's tokens.
        """
        if mask is None:
            if ids.characters is None:
                raise InputError("mask: expected one, as this model reads no characters, found None")
            mask = (ids.characters > 0).any(dim=-1)
        mask = mask.bool()
        with torch.set_grad_enabled(self.trainable and torch.is_grad_enabled()):
            read = read_padded(self.bilm, ids, mask, TokenIds(self.mark_characters, self.mark_words))
        layers, _ = read.without_marks()
        return self.mix(layers, mask)

    def mix(self, layers: Tensor, mask: Tensor) -> ElmoOutput:
        """layers: (L + 1, B, T, 2D), mask: (B, T). One representation per mix, each with its own dropout."""
        keep = mask.unsqueeze(-1)
        return ElmoOutput([self.dropout(mix(layers, mask) * keep) for mix in self.mixes], mask)

    def l2(self) -> Tensor:
        """L2 penalty of all mixes; multiplied by lambda and added to the loss, it keeps the weights nearly equal."""
        return torch.stack([cast(ScalarMix, mix).l2() for mix in self.mixes]).sum()
