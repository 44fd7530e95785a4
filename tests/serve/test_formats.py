"""Output formats, and what they need."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
from elmokit.serve.api_errors import ApiError
from elmokit.serve.formats import ARROW, sentence_vectors


def test_arrow_comes_with_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    assert any(requirement.startswith("pyarrow") for requirement in extras["serve"])


def test_without_arrow_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ApiError, match=r"pip install 'elmokit\[serve\]'") as error:
        sentence_vectors(np.zeros((1, 2), dtype=np.float32), ARROW, "float")
    assert error.value.status == 406
