"""Tensor functions of `allennlp.nn.util` that ELMo uses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from elmokit.errors import ConfigError
from elmokit.integrations.allennlp.masks import as_mask


def add_sentence_boundary_token_ids(
    tensor: Tensor, mask: Tensor, sentence_begin_token: Any, sentence_end_token: Any
) -> tuple[Tensor, Tensor]:
    """Add boundary tokens before the first and after the last token of every sentence.

    tensor: (B, T) or (B, T, M), zero at padding; mask: (B, T); tokens: ids of one token.
    Returns (B, T + 2) or (B, T + 2, M), and the mask (B, T + 2).
    """
    if tensor.dim() not in (2, 3):
        raise ValueError(f"tensor: expected 2 or 3 dimensions, found {tensor.dim()}")
    n_sentences, n_steps = tensor.shape[:2]
    marked = tensor.new_zeros(n_sentences, n_steps + 2, *tensor.shape[2:])
    marked[:, 1:-1] = tensor
    marked[:, 0] = _detached(sentence_begin_token, tensor)
    rows = torch.arange(n_sentences, device=tensor.device)
    marked[rows, mask.long().sum(dim=1) + 1] = _detached(sentence_end_token, tensor)
    return marked, as_mask(marked != 0 if tensor.dim() == 2 else (marked > 0).any(dim=-1))


def _detached(token: Any, like: Tensor) -> Any:
    return token.detach().to(like.device) if isinstance(token, Tensor) else token


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Remove the boundary tokens: (B, T + 2, d) and (B, T + 2) to (B, T, d), zero at padding, and (B, T)."""
    lengths = mask.long().sum(dim=1, keepdim=True) - 2
    inner = torch.arange(tensor.shape[1] - 2, device=tensor.device) < lengths  # (B, T)
    return tensor[:, 1:-1].masked_fill(~inner.unsqueeze(-1), 0), as_mask(inner)


def get_lengths_from_binary_sequence_mask(mask: Tensor) -> Tensor:
    """(B, T) mask of booleans or numbers to the (B,) number of tokens."""
    return mask.long().sum(dim=-1)


def sort_batch_by_length(tensor: Tensor, sequence_lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sort (B, ...) by (B,) lengths, the longest first.

    Returns the sorted tensor, the sorted lengths, the indices that restore the old order, and those that sort.
    """
    if not isinstance(tensor, Tensor) or not isinstance(sequence_lengths, Tensor):
        raise ConfigError("sort_batch_by_length: expected two tensors")
    lengths, order = sequence_lengths.sort(dim=0, descending=True)
    return tensor.index_select(0, order), lengths, order.argsort(), order


def get_device_of(tensor: Tensor) -> int:
    """GPU index of a tensor; -1 is the CPU."""
    return tensor.get_device() if tensor.is_cuda else -1


def tiny_value_of_dtype(dtype: torch.dtype) -> float:
    """Small constant to avoid division by zero."""
    if dtype in (torch.float, torch.double):
        return 1e-13
    if dtype in (torch.half, torch.bfloat16):
        return 1e-4
    raise TypeError(f"dtype: expected a floating-point type, found {dtype}")
