"""The Python of docs/migration.md runs, and gives the numbers that it promises."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from oracle import OracleState, embed, random_model

PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
BLOCKS = {
    section.split("\n", 1)[0]: re.findall(r"<!-- tested -->\n```python\n(.*?)```", section, re.DOTALL)
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")
}
OPTIONS, WEIGHTS = random_model(np.random.default_rng(3), projection_dim=8, dim=10)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with the folder `model`."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "options.json").write_text(json.dumps(OPTIONS))
    with h5py.File(model / "weights.hdf5", "w") as file:
        for name, array in WEIGHTS.items():
            file[name] = array
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    return names


@pytest.mark.parametrize(("section", "block"), [(name, block) for name, blocks in BLOCKS.items() for block in blocks])
def test_blocks_run(folder: Path, section: str, block: str) -> None:
    run(block)


def test_every_python_block_is_tested() -> None:
    assert sum(map(len, BLOCKS.values())) == PAGE.read_text(encoding="utf-8").count("```python") == 8


def test_bilm_numbers(folder: Path) -> None:
    names = run(BLOCKS["bilm-tf"][0])
    states: dict[int, OracleState] = defaultdict(OracleState)
    expected = [embed(s, OPTIONS, WEIGHTS, states[row]) for batch in names["batches"] for row, s in enumerate(batch)]
    for found, layers in zip(names["layers"], expected, strict=True):
        np.testing.assert_allclose(found, layers, atol=1e-5)


def test_simple_elmo_numbers(folder: Path) -> None:
    names = run(BLOCKS["simple_elmo"][0])
    for found, sentence in zip(names["vectors"], names["sentences"], strict=True):
        state = OracleState()
        embed(sentence, OPTIONS, WEIGHTS, state)
        np.testing.assert_allclose(found, embed(sentence, OPTIONS, WEIGHTS, state).mean(axis=0), atol=1e-5)
