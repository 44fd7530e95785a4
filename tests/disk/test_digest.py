"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmokit.disk.digest import file_sha256
from elmokit.errors import InputError


@given(content=st.binary(max_size=300))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_is_that_of_the_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert file_sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", ["missing", ".", "nul\0"])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        file_sha256(tmp_path / name)
