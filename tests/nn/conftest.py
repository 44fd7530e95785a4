"""With BREAK_TORCH_OPERATORS=1 torch's private operators compute other numbers, as after a change of torch."""

from __future__ import annotations

import os
from typing import Any

import torch

BROKEN = {
    "mkldnn": ["_linear_pointwise"],
    "aten": ["sigmoid_backward", "tanh_backward", "hardtanh_backward", "threshold_backward"],
}


class Broken:
    """An operator whose results are 1% too large."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operator(*args, **kwargs).mul_(1.01)

    def __getattr__(self, overload: str) -> Any:
        return Broken(getattr(self._operator, overload))


if os.environ.get("BREAK_TORCH_OPERATORS"):
    for namespace, names in BROKEN.items():
        for name in names:
            operators = getattr(torch.ops, namespace)
            setattr(operators, name, Broken(getattr(operators, name)))
