"""Conversion of checkpoints saved before the integration used AllenNLP's names (elmokit up to 0.3)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from elmokit.config import ModelConfig
from elmokit.weights import allennlp as layout
from elmokit.weights import torch_layout


def rename_earlier(config: ModelConfig, state_dict: dict[str, Tensor], prefix: str) -> None:
    """Convert tensors of an earlier checkpoint under `prefix`, if any, to the current names and layouts."""
    for entry in torch_layout.table(config, layout.names(prefix)):
        earlier = [prefix + _earlier(name) for name in entry.parameters]
        if all(name in state_dict for name in earlier):
            parts: tuple[Any, ...] = tuple(state_dict.pop(name) for name in earlier)
            state_dict[entry.name] = entry.layout.write(parts, entry.shape)
    words = state_dict.pop(f"{prefix}_word_embedding.word_embedding", None)  # boundary tokens were its last two rows
    if words is not None:
        state_dict[f"{prefix}_word_embedding.weight"] = words[:-2]


def _earlier(name: str) -> str:
    """Name of a parameter of `elmokit.nn` in the earlier `_ElmoBiLm`."""
    root, _, rest = name.partition(".")
    return f"_token_embedder.encoder.{rest}" if root == "token_encoder" else f"_elmo_lstm.{name}"
