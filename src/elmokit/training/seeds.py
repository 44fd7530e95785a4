"""Seeds derived from the position in a run, so that checkpoints need no generator state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_of(*key: int) -> int:
    """Hash numbers into a seed; nearby keys give unrelated seeds."""
    return int(np.random.SeedSequence(key).generate_state(1)[0])


@contextmanager
def seeded(device: torch.device, *key: int) -> Iterator[None]:
    """Context in which torch is seeded by the key; the previous generator state is restored at the end."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else ()):
        torch.manual_seed(seed_of(*key))
        yield
