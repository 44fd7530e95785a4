"""The choice of layers: all of them, or one combination. Needs numpy, not torch."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import ConfigError

LayerName = Literal["all", "top", "average"]
Layers = LayerName | int | Sequence[float]  # a name, the number of a layer, or a weight for each


def check_layers(layers: Layers, n_layers: int) -> Layers:
    """Validate a choice of layers; weights are returned as a list of floats."""
    if isinstance(layers, Integral):
        if not 0 <= layers < n_layers:
            raise ConfigError(f"--layers: this model has 0 to {n_layers - 1}, found {layers}")
        return int(layers)
    if isinstance(layers, str) and layers in get_args(LayerName):
        return layers
    try:
        weights = [] if isinstance(layers, str) else [float(weight) for weight in layers]  # type: ignore[union-attr]
    except (TypeError, ValueError):
        weights = []
    if not weights:
        raise ConfigError(f"--layers: expected {', '.join(get_args(LayerName))}, a number or weights, found {layers!r}")
    if len(weights) != n_layers:
        raise ConfigError(f"--layers: expected {n_layers} weights, one per layer, found {len(weights)}")
    if not np.isfinite(weights).all():
        raise ConfigError(f"--layers: expected finite weights, found {weights}")
    return weights


def resolve_layers(layers: Layers, n_layers: int) -> int | Sequence[float] | None:
    """Resolve a checked choice to None (all layers), the number of one layer, or a weight for each."""
    if not isinstance(layers, str):
        return layers
    named: dict[LayerName, int | list[float] | None] = {
        "all": None,
        "top": n_layers - 1,
        "average": [1 / n_layers] * n_layers,
    }
    return named[layers]


def combine_layers(array: NDArray[Any], layers: Layers) -> NDArray[Any]:
    """(1, n, 2D) of the combination, or all of (L + 1, n, 2D); a view of the array where that suffices."""
    chosen = resolve_layers(layers, len(array))
    if chosen is None:
        return array
    if isinstance(chosen, int):
        return array[chosen : chosen + 1]
    combined: NDArray[Any] = np.tensordot(np.asarray(chosen, dtype=np.float32), array, axes=1)[None]
    return combined
