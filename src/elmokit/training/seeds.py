"""Random numbers that follow from where a run is, so that a checkpoint need not keep the state of a generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_of(*key: int) -> int:
    """A seed that follows from some numbers; other numbers, however near, have another."""
    return int(np.random.SeedSequence(key).generate_state(1)[0])


@contextmanager
def seeded(device: torch.device, *key: int) -> Iterator[None]:
    """Within, torch's random numbers follow from the key; outside, they go on as if nothing had happened."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else ()):
        torch.manual_seed(seed_of(*key))
        yield
