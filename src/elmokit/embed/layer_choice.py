"""The choice of layers: all of them, or one combination. Needs numpy, not torch."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Literal

import numpy as np

from elmokit.errors import ConfigError

Layers = Literal["all", "top", "average"] | int | Sequence[float]


def check_layers(layers: Layers, n_layers: int) -> Layers:
    """The choice, if the model has it; weights of any kind as a list of numbers."""
    if isinstance(layers, Integral):
        if not 0 <= layers < n_layers:
            raise ConfigError(f"--layers: this model has 0 to {n_layers - 1}, found {layers}")
        return int(layers)
    if isinstance(layers, str) and layers in ("all", "top", "average"):
        return layers
    try:
        weights = [] if isinstance(layers, str) else [float(weight) for weight in layers]  # type: ignore[union-attr]
    except (TypeError, ValueError):
        weights = []
    if not weights:
        raise ConfigError(f"--layers: expected all, top, average, a number or weights, found {layers!r}")
    if len(weights) != n_layers:
        raise ConfigError(f"--layers: expected {n_layers} weights, one per layer, found {len(weights)}")
    if not np.isfinite(weights).all():
        raise ConfigError(f"--layers: expected finite weights, found {weights}")
    return weights
