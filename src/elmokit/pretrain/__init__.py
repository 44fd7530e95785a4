"""Training the biLM on a corpus: text to batches, losses, the loop, checkpoints and perplexity.

The package can be called: `elmokit.pretrain(...)` is `elmokit.pretrain.pretrain(...)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmokit.pretrain.from_python import pretrain
    from elmokit.pretrain.training_settings import TrainingSettings

__all__ = ["TrainingSettings", "pretrain"]

_HOMES = {"TrainingSettings": "elmokit.pretrain.training_settings", "pretrain": "elmokit.pretrain.from_python"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'elmokit.pretrain' has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


class _CallablePackage(ModuleType):
    """A package that is also its main function, as `elmokit.load` and `elmokit.load_tagger` are functions."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Train a biLM on text files; arguments as in `elmokit.pretrain.pretrain`."""
        return self.pretrain(*args, **kwargs)

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        return signature(self.pretrain)


sys.modules[__name__].__class__ = _CallablePackage
