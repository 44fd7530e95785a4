"""Neighbors of labeled occurrences, counted by benchmarks/sense_neighbors.py."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from elmokit import Elmo

ROOT = Path(__file__).parents[1]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("sense_neighbors")


def test_counts_are_those_of_sorting_by_cosine(benchmark: ModuleType) -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 9, 4))
    senses = list("aabbababb")
    found = benchmark.same_sense(vectors, senses)
    for layer in range(2):
        for k in range(9):

            def cosine(j: int, layer: int = layer, k: int = k) -> float:
                a, b = vectors[layer, j], vectors[layer, k]
                return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

            nearest = sorted((j for j in range(9) if j != k), key=cosine, reverse=True)[:5]
            assert found[layer, k] == sum(senses[j] == senses[k] for j in nearest)
    assert benchmark.by_chance(senses) == pytest.approx(5 * (4 * 3 + 5 * 4) / (9 * 8))


def test_all_words_are_measured(benchmark: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    rows = [f"bank\t{sense}\tThe {sense} has a bank ." for sense in ("river", "money") * 4]
    path.write_text("# a comment\n" + "\n".join(rows) + "\n", encoding="utf-8")
    words = benchmark.measure(Elmo.from_pretrained(), path)
    assert words.keys() == {"bank"} and words["bank"]["occurrences"] == 8
    # equal sentences have equal vectors in every layer above the first: three others have the sense, two do not
    assert words["bank"]["same"][1:] == [3, 3]
    assert "| *bank* | " in benchmark.table(words)
