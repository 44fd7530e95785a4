"""Random subsets of the training data, nested by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from elmokit.errors import InputError

Example = TypeVar("Example")
_KEY = 0x5AB5E7  # separates these random numbers from those of the epoch order


def subset(examples: Sequence[Example], fraction: float, seed: int) -> list[Example]:
    """Random subset in original order; with the same seed, a larger fraction contains a smaller one."""
    n = round(fraction * len(examples))
    if examples and not n:
        raise InputError(
            f"--train-fraction: expected a part of the {len(examples):,} training examples with at least one in it, "
            f"found {fraction:g}"
        )
    order = np.random.default_rng((seed, _KEY)).permutation(len(examples))
    return [examples[k] for k in sorted(order[:n])]
