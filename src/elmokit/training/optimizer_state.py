"""Validation of optimizer state tensors before the fused kernels use them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from elmokit.disk.tensor_file import TensorSpec, check_tensor
from elmokit.errors import FormatError

# Besides `step`, each has the shape and dtype of its parameter; otherwise a fused kernel would write out of bounds.
KEPT: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {
    torch.optim.Adam: ("exp_avg", "exp_avg_sq"),
    torch.optim.Adagrad: ("sum",),
    torch.optim.Adadelta: ("square_avg", "acc_delta"),
}


def checked_state(
    tensors: Mapping[str, Tensor], parameters: Mapping[str, Tensor], kind: type[torch.optim.Optimizer], label: str
) -> dict[str, dict[str, Tensor]]:
    """Optimizer state by parameter; each parameter has either all state tensors or none.

    tensors: by "key.parameter", for example "exp_avg.bilm.forward_layers.0.bias".
    """
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        key, _, parameter = name.partition(".")
        if parameter not in parameters or key not in ("step", *KEPT[kind]):
            raise FormatError(f"{label}: expected state tensors of {kind.__name__}, found {name}")
        spec = TensorSpec(()) if key == "step" else TensorSpec.like(parameters[parameter])
        check_tensor(tensor, spec, name, label)
        if key in ("step", "exp_avg_sq", "sum", "square_avg", "acc_delta") and bool((tensor < 0).any()):
            raise FormatError(f"{label}: expected non-negative numbers in {name}, found negative ones")
        found.setdefault(parameter, {})[key] = tensor
    for parameter, kept in found.items():
        if missing := sorted({"step", *KEPT[kind]} - kept.keys()):
            raise FormatError(f"{label}: expected {missing[0]} of {parameter}, found none")
    return found
