"""Scalar mix: weighted sum of the biLM layers, with weights learned by the task."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.errors import ConfigError


class ScalarMix(nn.Module):
    """ELMo_k = gamma * sum_j softmax(s)_j h_kj (Peters et al. 2018, equation 1).

    `weights` fixes s (before the softmax), and gamma at 1. `top_only` uses the last layer only, times gamma.
    With `layer_norm` every layer is first normalized to mean 0 and variance 1 over all real tokens of the batch.
    """

    def __init__(
        self,
        *,
        n_layers: int,
        weights: Sequence[float] | None = None,
        layer_norm: bool = False,
        top_only: bool = False,
        epsilon: float = 1e-12,
    ) -> None:
        super().__init__()
        if weights is not None and len(weights) != n_layers:
            raise ConfigError(f"mix weights: expected {n_layers} numbers, one per layer, found {len(weights)}")
        self.n_layers, self.layer_norm, self.top_only, self.epsilon = n_layers, layer_norm, top_only, epsilon
        fixed = weights is not None
        # with `top_only`, gamma is the one parameter to train
        start = [0.0] * n_layers if weights is None else [float(weight) for weight in weights]
        self.scalars = nn.Parameter(torch.tensor(start, dtype=torch.float), requires_grad=not (fixed or top_only))
        self.gamma = nn.Parameter(torch.ones(()), requires_grad=not fixed)

    def forward(self, layers: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """layers: (L + 1, ..., 2D) or a list of (..., 2D); mask: (...) true at real tokens. Returns (..., 2D)."""
        if len(layers) != self.n_layers:
            raise ConfigError(f"mix: expected {self.n_layers} layers, found {len(layers)}")
        if self.top_only:
            return self.gamma * layers[-1]
        if self.layer_norm:
            layers = [self._normalize(layer, mask) for layer in layers]
        weights = self.weights()
        mixed = weights[0] * layers[0]
        for j in range(1, self.n_layers):
            mixed = torch.addcmul(mixed, weights[j], layers[j])
        return self.gamma * mixed

    def _normalize(self, layer: Tensor, mask: Tensor | None) -> Tensor:
        real = layer if mask is None else layer[mask.bool()]  # integers would be indices
        if not real.numel():
            return layer
        mean = real.mean()
        variance = (real - mean).square().mean()
        return (layer - mean) * torch.rsqrt(variance + self.epsilon)

    def weights(self) -> Tensor:
        """(L + 1,) weights of the layers: softmax(s); with `top_only` the last one alone."""
        if self.top_only:
            return functional.one_hot(torch.tensor(self.n_layers - 1), self.n_layers).to(self.scalars)
        return torch.softmax(self.scalars, dim=0)

    def l2(self) -> Tensor:
        """L2 penalty, sum(s^2); multiply it by lambda and add it to the loss."""
        return self.scalars.square().sum()
