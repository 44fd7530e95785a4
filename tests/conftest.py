"""What all tests share."""

from __future__ import annotations

import signal
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
