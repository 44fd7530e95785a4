"""Learning curves of the pages, from the metrics of a run (recipes/learning_curve.py)."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "recipes")
    return importlib.import_module("learning_curve")


def step(number: int, rate: float) -> dict[str, Any]:
    return {"kind": "step", "step": number, "tokens": 4_000 * number, "learning_rate": rate, "perplexity": 5.0}


def heldout(number: int, mean: float) -> dict[str, Any]:
    return {"kind": "heldout", "step": number, "mean": mean}


def test_a_point_per_evaluation_with_the_tokens_read(recipe: ModuleType) -> None:
    lines = [step(10, 0.002), step(20, 0.001), heldout(20, 90.5), step(30, 0.0), heldout(30, 80.04)]
    points = recipe.curve(lines)
    assert [(point["tokens"], point["perplexity"]) for point in points] == [(80_000, 90.5), (120_000, 80.04)]
    assert [point["learning_rate"] for point in points] == [0.001, 0.0]
    assert recipe.table(points) == [
        "| million tokens | 0.1 | 0.1 |",
        "|---|---|---|",
        "| perplexity | 90.5 | 80.0 |",
        "| learning rate / 0.001 | 1.00 | 0.00 |",
    ]


def test_tokens_between_logged_steps_are_interpolated(recipe: ModuleType) -> None:
    (point,) = recipe.curve([heldout(5, 90.0), step(10, 0.002)])
    assert point["tokens"] == 20_000


def test_the_evaluation_before_the_first_step_is_not_on_the_curve(recipe: ModuleType) -> None:
    assert recipe.curve([heldout(0, 100.0), step(10, 0.002)]) == []
