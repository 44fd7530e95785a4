"""Less training data: a random part of the examples, smaller parts inside larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from elmokit.errors import InputError

Example = TypeVar("Example")
_KEY = 0x5AB5E7  # its random numbers are not those of an epoch's order


def subset(examples: Sequence[Example], fraction: float, seed: int) -> list[Example]:
    """So many of the examples, in their order; the same seed gives a part that a greater fraction's contains."""
    n = round(fraction * len(examples))
    if examples and not n:
        raise InputError(
            f"--train-fraction: expected a part of the {len(examples):,} training examples with at least one in it, "
            f"found {fraction:g}"
        )
    order = np.random.default_rng((seed, _KEY)).permutation(len(examples))
    return [examples[k] for k in sorted(order[:n])]
