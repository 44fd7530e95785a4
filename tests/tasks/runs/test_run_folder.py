"""Files of a run folder that are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import FormatError
from elmokit.tasks.runs.run_folder import LABELS, read_labels


@pytest.mark.parametrize("labels", [{}, {"types": ["A", "A"]}, {"types": ["A", ""]}, {"other": ["A"]}, {"types": 1}])
def test_damaged_labels(tmp_path: Path, labels: Any) -> None:
    (tmp_path / LABELS).write_text(json.dumps(labels))
    with pytest.raises(FormatError, match=r"labels\.json"):
        read_labels(tmp_path, ["types"])
