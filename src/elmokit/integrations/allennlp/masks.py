"""Masks compatible with code for AllenNLP 0.9 (integer masks) and for AllenNLP 2 (boolean masks)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Operations that old code applies to integer masks and torch rejects for booleans: `1 - mask`, `-mask`.
_SUBTRACTIONS = {
    Tensor.sub,
    Tensor.subtract,
    Tensor.__sub__,
    Tensor.__rsub__,
    Tensor.neg,
    Tensor.negative,
    Tensor.__neg__,
    torch.sub,
    torch.subtract,
    torch.rsub,
    torch.neg,
    torch.negative,
}


class Mask(Tensor):
    """Boolean tensor that also subtracts: `1 - mask` is an integer tensor, `~mask` a boolean one.

    Views and logical operations stay masks. Results of any other type are plain tensors.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation; subtractions see integers."""
        if func in _SUBTRACTIONS:
            args = [arg.long() if isinstance(arg, Tensor) and arg.dtype == torch.bool else arg for arg in args]
        result = super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        if isinstance(result, Mask) and result.dtype != torch.bool:
            return result.as_subclass(Tensor)
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A pickled mask is a plain tensor, which loads without elmokit."""
        return self.as_subclass(Tensor).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]


def as_mask(mask: Tensor) -> Tensor:
    """A tensor of any type as a mask."""
    return mask.bool().as_subclass(Mask)
