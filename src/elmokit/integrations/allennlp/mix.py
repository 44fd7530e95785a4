"""Scalar mix with AllenNLP's names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmokit.errors import ConfigError
from elmokit.integrations.allennlp.util import tiny_value_of_dtype


class ScalarMix(nn.Module):
    """gamma * sum_k softmax(scalar_parameters)_k layer_k (Peters et al., 2018), with one parameter per weight.

    With `do_layer_norm` each layer is normalized over all tokens of the batch at once, boundary tokens included.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        start = [0.0] * mixture_size if initial_scalar_parameters is None else list(initial_scalar_parameters)
        if len(start) != mixture_size:
            raise ConfigError(f"initial_scalar_parameters: expected {mixture_size} numbers, found {len(start)}")
        self.mixture_size, self.do_layer_norm = mixture_size, do_layer_norm
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(weight)]), requires_grad=trainable) for weight in start
        )
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """tensors: one (B, T, d) per layer; mask: (B, T), for the layer norm. Returns (B, T, d)."""
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"ScalarMix: expected {self.mixture_size} layers, found {len(tensors)}")
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("ScalarMix: expected a mask for the layer norm, found none")
            tensors = [_normalize(tensor, mask.bool()) for tensor in tensors]
        weights = torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)
        mixed: Tensor = self.gamma * sum(weight * tensor for weight, tensor in zip(weights, tensors, strict=True))
        return mixed


def _normalize(layer: Tensor, mask: Tensor) -> Tensor:
    """(..., d) with mean 0 and variance 1 over all places of the mask (...)."""
    if not mask.any():
        return layer
    variance, mean = torch.var_mean(layer[mask], correction=0)
    return (layer - mean) / torch.sqrt(variance + tiny_value_of_dtype(layer.dtype))
