"""Quality of encoders (benchmarks/quality.py): misspellings, and results that are kept between commands."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tiny_bilm import tiny_bilm

from elmokit import Elmo
from elmokit.weights.model import Model

ROOT = Path(__file__).parents[1]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("quality")


def test_only_words_of_four_letters_are_misspelled(benchmark: ModuleType) -> None:
    sentences = [["The", "1996", "reporters", "a.b.c", "of"] for _ in range(200)]
    noisy = benchmark.misspelled(sentences, 0.5)
    changed = [{a for a, b in zip(s, t, strict=True) if a != b} for s, t in zip(sentences, noisy, strict=True)]
    assert set().union(*changed) == {"reporters"}
    assert noisy == benchmark.misspelled(sentences, 0.5)  # a fixed seed


def test_results_of_other_weights_are_dropped_and_columns_stay(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = tmp_path / "quality.json"
    senses = {"right": {"layer 0": 1}, "best": 1, "triples": 25}
    old: dict[str, Any] = {
        "base": {"fingerprint": "other", "megabytes": 1.0, "sst": {"accuracy": 50.0}},
        "minilm": {"megabytes": 91.0, "senses": senses, "wsd": {"layer 2": {"ALL": 60.0}}},  # an older version's
    }
    benchmark.files.write("quality", {"encoders": old}, output=output)
    network = tiny_bilm()
    elmo = Elmo(Model(network.config, network))
    monkeypatch.setattr(benchmark.encoders, "load", lambda name, glove: (elmo, 2.0))
    monkeypatch.setattr(benchmark, "load_triples", lambda: [])
    monkeypatch.setitem(benchmark.MEASURES, "senses", lambda encoder, data: senses)
    monkeypatch.setattr(
        sys, "argv", ["quality.py", "base", "--data", str(tmp_path), "--only", "senses", "-o", str(output)]
    )
    benchmark.main()
    found = json.loads(output.read_text())["numbers"]["encoders"]
    assert list(found) == ["base", "minilm"] and "sst" not in found["base"] and "wsd" not in found["minilm"]
    assert found["base"]["fingerprint"] == elmo.model.fingerprint and found["minilm"]["senses"] == senses
