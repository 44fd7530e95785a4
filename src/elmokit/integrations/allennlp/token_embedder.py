"""Base class of token embedders, as `allennlp.modules.token_embedders.TokenEmbedder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

T = TypeVar("T")


class TokenEmbedder(nn.Module):
    """Module that maps token ids (B, T, ...) to vectors (B, T, output dimension)."""

    default_implementation = "embedding"

    @classmethod
    def register(cls, name: str, *args: Any, **kwargs: Any) -> Callable[[T], T]:
        """Decorator without effect: there is no registry, and no JSON configuration to find a class in it."""
        return lambda subclass: subclass

    def get_output_dim(self) -> int:
        """Output dimension."""
        raise NotImplementedError
