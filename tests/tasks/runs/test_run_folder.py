"""Files of a run folder: damaged ones, and those of older versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.disk.tensor_file import write_tensors
from elmokit.errors import FormatError
from elmokit.tasks.runs.run_folder import LABELS, WEIGHTS, WORDS, WordsRecord, read_labels, read_tensors, read_words


@pytest.mark.parametrize("labels", [{}, {"types": ["A", "A"]}, {"types": ["A", ""]}, {"other": ["A"]}, {"types": 1}])
def test_damaged_labels(tmp_path: Path, labels: Any) -> None:
    (tmp_path / LABELS).write_text(json.dumps(labels))
    with pytest.raises(FormatError, match=r"labels\.json"):
        read_labels(tmp_path, ["types"])


@pytest.mark.parametrize("name", ["n_learned", "n_learnt"])
def test_words_of_older_versions(tmp_path: Path, name: str) -> None:
    (tmp_path / WORDS).write_text(json.dumps({name: 1, "dim": 3, "words": ["a", "b"]}))
    assert read_words(tmp_path) == WordsRecord(1, 3, ["a", "b"])


def test_weights_of_older_versions(tmp_path: Path) -> None:
    write_tensors(tmp_path / WEIGHTS, {"inputs.words.learnt": torch.ones(2, 3), "learnt.weight": torch.zeros(1)})
    assert read_tensors(tmp_path / WEIGHTS).keys() == {"inputs.words.learned", "learnt.weight"}
