"""Masks compatible with code for AllenNLP 0.9 (integer masks) and for AllenNLP 2 (boolean masks)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Operations that old code applies to integer masks and torch rejects for booleans: `1 - mask`, `-mask`, `mask -= 1`.
_SUBTRACTIONS = {
    Tensor.sub,
    Tensor.subtract,
    Tensor.__sub__,
    Tensor.sub_,  # also `tensor -= mask`
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
_MEANS = {Tensor.mean, torch.mean}


class Mask(Tensor):
    """Boolean tensor that also subtracts: `1 - mask` is an integer tensor, `~mask` a boolean one.

    Views and logical operations stay masks. Results of any other type are plain tensors. `mask -= 1` binds the name to
    a new integer tensor; `mask.sub_(1)`, which cannot change the type, remains torch's error. `mask.mean()` is the
    fraction of true elements. The sum of two masks is their logical or, as in AllenNLP 2, because an integer in its
    place would select other elements in `tensor[a + b]`; for an integer sum write `a.long() + b`.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation; subtractions see integers, and means see floating-point numbers."""
        kwargs = kwargs or {}
        if func in _SUBTRACTIONS or func in _MEANS:
            dtype = torch.long if func in _SUBTRACTIONS else torch.get_default_dtype()
            first = 1 if func is Tensor.sub_ else 0  # what is changed in place stays
            args = [*args[:first], *(_to_number(arg, dtype) for arg in args[first:])]
            kwargs = {name: _to_number(arg, dtype) for name, arg in kwargs.items()}
        result = super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        if isinstance(result, Mask) and result.dtype != torch.bool:
            return result.as_subclass(Tensor)
        return result

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        """`mask -= 1`: a new integer tensor."""
        return self - other

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A pickled mask is a plain tensor, which loads without elmokit."""
        return self.as_subclass(Tensor).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]


def _to_number(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.dtype == torch.bool else value


def as_mask(mask: Tensor) -> Tensor:
    """A tensor of any type as a mask."""
    return mask.bool().as_subclass(Mask)
