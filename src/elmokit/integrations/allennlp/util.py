"""Functions of `allennlp.nn.util`, `allennlp.common.util` and `allennlp.common.checks` around ELMo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
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
    return token.detach().to(like) if isinstance(token, Tensor) else token


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


def get_text_field_mask(
    text_field_tensors: Mapping[str, Any], num_wrapping_dims: int = 0, padding_id: int = 0
) -> Tensor:
    """Mask (B, T) of the ids of a text: by indexer a tensor (AllenNLP 0.9), or a dictionary of tensors (2).

    num_wrapping_dims: dimensions between B and T, for lists of texts. A `mask` among the tensors is used as it is.
    """
    tensors: list[Tensor] = []
    for name, value in text_field_tensors.items():
        parts = dict(value) if isinstance(value, Mapping) else {name: value}
        if isinstance(parts.get("mask"), Tensor):
            return as_mask(parts["mask"])
        tensors += [part for part in parts.values() if isinstance(part, Tensor)]
    if not tensors:
        raise ValueError(f"text_field_tensors: expected tensors, found {', '.join(text_field_tensors) or 'nothing'}")
    ids = min(tensors, key=lambda tensor: tensor.dim())
    n_dims = ids.dim() - num_wrapping_dims
    if n_dims not in (2, 3):
        raise ValueError(f"text_field_tensors: expected word ids (B, T) or character ids (B, T, M), found {ids.shape}")
    return as_mask(ids != padding_id if n_dims == 2 else (ids != padding_id).any(dim=-1))


def move_to_device(obj: Any, device: int | str | torch.device) -> Any:
    """Copy of a structure of lists, tuples and dictionaries with its tensors on a device; -1 is the CPU."""
    if isinstance(device, int):
        device = "cpu" if device < 0 else f"cuda:{device}"
    if isinstance(obj, Tensor):
        return obj.to(device)
    if isinstance(obj, Mapping):
        return {key: move_to_device(value, device) for key, value in obj.items()}
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):  # named tuple
        return type(obj)(*(move_to_device(item, device) for item in obj))
    if isinstance(obj, list | tuple):
        return type(obj)(move_to_device(item, device) for item in obj)
    return obj


def lazy_groups_of(iterable: Iterable[Any], group_size: int) -> Iterator[list[Any]]:
    """Lists of `group_size` consecutive elements; the last one may be shorter."""
    remaining = iter(iterable)
    while group := list(islice(remaining, group_size)):
        yield group


def check_dimensions_match(
    dimension_1: int, dimension_2: int, dim_1_name: str = "dimension 1", dim_2_name: str = "dimension 2"
) -> None:
    """Raise a ConfigurationError if two dimensions differ."""
    if dimension_1 != dimension_2:
        raise ConfigError(f"{dim_1_name}: expected {dim_2_name} = {dimension_2}, found {dimension_1}")


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
