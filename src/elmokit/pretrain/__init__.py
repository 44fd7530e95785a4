"""Training the biLM on a corpus: text to batches, losses, the loop, checkpoints and perplexity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmokit.pretrain.from_python import pretrain
    from elmokit.pretrain.settings import TrainingSettings

__all__ = ["TrainingSettings", "pretrain"]

_HOMES = {"TrainingSettings": "elmokit.pretrain.settings", "pretrain": "elmokit.pretrain.from_python"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'elmokit.pretrain' has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
