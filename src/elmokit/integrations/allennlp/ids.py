"""Sentences to padded character ids, and the sentence marks put on and taken off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from elmokit.text.characters import BOS, EOS, ByteCharacters

MAX_CHARACTERS = 50  # always, whatever the options of the model say


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Character ids of tokenised sentences: (sentences, tokens of the longest, 50), zero where there is no token."""
    return pad_characters(batch, MAX_CHARACTERS)


def pad_characters(batch: Sequence[Sequence[str]], width: int) -> Tensor:
    """Character ids of tokenised sentences: (B, T, width)."""
    lengths = torch.tensor([len(sentence) for sentence in batch], dtype=torch.long)  # (B,)
    n_steps = max(map(len, batch), default=0)
    ids = torch.zeros(len(batch), n_steps, width, dtype=torch.long)
    words = [word for sentence in batch for word in sentence]
    ids[torch.arange(n_steps) < lengths.unsqueeze(1)] = characters(words, width)
    return ids


def characters(words: Sequence[str], width: int, device: torch.device | str = "cpu") -> Tensor:
    """Character ids of n words: (n, width)."""
    return torch.from_numpy(ByteCharacters(width).encode(words)).to(device)


def marks(width: int, device: torch.device | str = "cpu") -> Tensor:
    """Character ids of the marks at the begin and the end of a sentence: (2, width)."""
    return characters([BOS, EOS], width, device)


def add_sentence_boundary_token_ids(
    tensor: Tensor, mask: Tensor, sentence_begin_token: Any, sentence_end_token: Any
) -> tuple[Tensor, Tensor]:
    """Put a mark before the first and one after the last token of every sentence.

    tensor: (B, T) or (B, T, M), zero at padding; mask: (B, T); tokens: what fits into one place of the tensor.
    Returns (B, T + 2) or (B, T + 2, M), and the mask (B, T + 2).
    """
    if tensor.dim() not in (2, 3):
        raise ValueError(f"tensor: expected 2 or 3 dimensions, found {tensor.dim()}")
    n_sentences, n_steps = tensor.shape[:2]
    marked = tensor.new_zeros(n_sentences, n_steps + 2, *tensor.shape[2:])
    marked[:, 1:-1] = tensor
    marked[:, 0] = sentence_begin_token
    marked[torch.arange(n_sentences, device=tensor.device), mask.sum(dim=1) + 1] = sentence_end_token
    return marked, marked != 0 if tensor.dim() == 2 else (marked > 0).any(dim=-1)


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Take both marks off again: (B, T + 2, d) and (B, T + 2) to (B, T, d), zero at padding, and (B, T)."""
    lengths = mask.sum(dim=1, keepdim=True) - 2
    inner = torch.arange(tensor.shape[1] - 2, device=tensor.device) < lengths  # (B, T)
    return tensor[:, 1:-1].masked_fill(~inner.unsqueeze(-1), 0), inner
