"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """The reference data that may stand beside the project; tests that want it are skipped without it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the reference data is not there")
    return SHARED_DATA
