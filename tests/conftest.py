"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Whoever started us may have had interrupts ignored, as a shell does for what runs in its background, and children
# inherit that; tests of interrupts want the usual.
signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """The reference data that may stand beside the project; tests that want it are skipped without it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the reference data is not there")
    return SHARED_DATA


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """One thread of torch: the sums of several may differ in the last bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
