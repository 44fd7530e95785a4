"""Wider networks from trained ones, with the same output (Net2Net, Chen et al. 2016).

New units have random incoming weights, and zero outgoing weights to old units. So the wider model starts with the
perplexity of the old one, and every new weight soon has a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

import torch
from torch import Tensor

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError
from elmokit.nn.bilm import BiLM
from elmokit.nn.softmax import AdaptiveHead, Head, SoftmaxHead

Places = Tensor  # (old size,) the new index of every old unit


def grow_bilm_(wide: BiLM, old: BiLM) -> None:
    """Copy a trained network into a wider one with random weights, in place, so that both compute the same."""
    _require_wider(wide.config, old.config)
    trained = old.state_dict()
    with torch.no_grad():
        for name, parameter in wide.named_parameters():
            _widen_(parameter, trained[name], *_places(name, wide.config, old.config))


def grow_head_(wide: Head, old: Head) -> None:
    """Copy a trained softmax over the same words into a wider one, in place."""
    same_kind = isinstance(wide, AdaptiveHead) == isinstance(old, AdaptiveHead)
    if not same_kind or wide.n_words != old.n_words:
        raise ConfigError(
            f"--grow: expected a model with the softmax of the new run, {_kind(wide)}, found {_kind(old)}; choose it "
            "by --loss"
        )
    trained = old.state_dict()
    with torch.no_grad():
        for name, parameter in wide.named_parameters():
            # (outputs, inputs) here: words and tiers stay, vectors get longer
            before = trained[name]
            rows, *columns = [torch.arange(size) for size in before.shape]
            if columns:
                _widen_(parameter.t(), before.t(), columns[0], rows)
            else:
                parameter.copy_(before)


def _widen_(fresh: Tensor, trained: Tensor, inputs: Places | None, outputs: Places) -> None:
    """Put trained weights (inputs, outputs), or (outputs,), into random ones; old outputs read no new input."""
    if inputs is None:
        fresh[outputs] = trained
        return
    fresh[:, outputs] = 0
    fresh[inputs.unsqueeze(1), outputs] = trained


def _places(name: str, wide: ModelConfig, old: ModelConfig) -> tuple[Places | None, Places]:
    """Indices of the inputs and outputs of an old parameter in the wider one; None for the inputs of a bias."""
    assert wide.char_cnn is not None and old.char_cnn is not None
    dims, cells = torch.arange(old.lstm.projection_dim), torch.arange(old.lstm.dim)
    gates = torch.cat([cells + gate * wide.lstm.dim for gate in range(4)])
    parts = name.split(".")
    if parts[0] != "token_encoder":
        places: Mapping[str, tuple[Places | None, Places]] = {
            "input": (dims, gates),
            "state": (dims, gates),
            "bias": (None, gates),
            "projection": (cells, dims),
        }
        return places[parts[2]]
    channels = torch.arange(old.char_cnn.embedding_dim)
    filters = list(_filters(wide, old))
    features = torch.cat([start + torch.arange(count) for start, count in filters])
    match parts[1]:
        case "char_embedding":
            return torch.arange(old.char_cnn.n_characters), channels
        case "convolutions":
            width, _ = old.char_cnn.filters[int(parts[2])]
            windows = torch.cat([channels + k * wide.char_cnn.embedding_dim for k in range(width)])
            return (windows if parts[3] == "weight" else None), torch.arange(filters[int(parts[2])][1])
        case "highways":
            return (None if parts[3].endswith("bias") else features), features
        case "projection":
            return features, dims
        case _:
            return None, dims  # projection_bias


def _filters(wide: ModelConfig, old: ModelConfig) -> Iterator[tuple[int, int]]:
    """Per filter width: index of its first filter in the wider network, and number of filters in the old one."""
    assert wide.char_cnn is not None and old.char_cnn is not None
    starts = accumulate((count for _, count in wide.char_cnn.filters), initial=0)
    for start, (_, count) in zip(starts, old.char_cnn.filters, strict=False):
        yield start, count


def _require_wider(wide: ModelConfig, old: ModelConfig) -> None:
    """Raise a ConfigError unless the two differ in their widths alone, and no width shrinks."""
    new, was = _widths(wide), _widths(old)
    fixed = _fixed(wide) == _fixed(old)
    if not fixed or new.keys() != was.keys() or any(new[name] < was[name] for name in was):
        raise ConfigError(
            f"--grow: expected a model that is no wider than the new one in any part and otherwise the same, found "
            f"{_shape(was)} for {_shape(new)}"
        )


def _widths(config: ModelConfig) -> dict[str, int]:
    if config.char_cnn is None or config.n_words:
        raise ConfigError("--grow: expected a model that reads characters only, found one with a table of words")
    filters = {f"filters of width {width}": count for width, count in config.char_cnn.filters}
    sizes = {"cells": config.lstm.dim, "projection": config.lstm.projection_dim}
    return {**sizes, "character dimensions": config.char_cnn.embedding_dim, **filters}


def _fixed(config: ModelConfig) -> tuple[object, ...]:
    lstm, chars = config.lstm, config.char_cnn
    assert chars is not None
    return (
        lstm.n_layers,
        lstm.cell_clip,
        lstm.proj_clip,
        lstm.skip_connections,
        lstm.has_projection,
        chars.n_highway,
        chars.activation,
        chars.n_characters,
        chars.max_characters,
        chars.alphabet,
        len(chars.filters),
        config.has_token_projection,
    )


def _shape(widths: Mapping[str, int]) -> str:
    return ", ".join(f"{size} {name}" for name, size in widths.items())


def _kind(head: Head) -> str:
    return f"{'full' if isinstance(head, SoftmaxHead) else 'adaptive'} over {head.n_words:,} words"
