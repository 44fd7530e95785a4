"""The scripts and the notebook of examples/ run.

The cells of the notebook are executed here, in one namespace, and the value of each last expression is shown as Jupyter
would show it. A kernel (nbclient, ipykernel) would bring some thirty packages for the same check.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOK = json.loads((EXAMPLES / "tour.ipynb").read_text("utf-8"))


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=240).stdout


def test_a_word_is_found_in_its_sense() -> None:
    best = run("word_senses.py").splitlines()[2]
    assert any(word in best for word in ("canoe", "boats", "river", "stream", "water")), best


def test_misspelled_words_are_found() -> None:
    found = dict(line.split() for line in run("misspelled.py").splitlines())
    assert found["goverment"] == "government" and found["seperate"] == "separate"


def test_the_tagger_learns() -> None:
    *_, score, shown = run("pytorch_tagger.py", "Anna Brown lives in Hamburg .").splitlines()
    right, _, total, *_ = score.split()
    assert int(right) > 0.85 * int(total)
    assert shown.startswith("Anna/B-PER Brown/I-PER lives in Hamburg/B-LOC")


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    monkeypatch.chdir(EXAMPLES)
    code = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    shown = [execute(cell, names) for cell in code]
    assert sum(isinstance(item, bytes) for item in shown) == 1  # the heat map; the map is a figure of matplotlib
    assert len(names["vectors"]) == 10 and int(names["right"].sum()) > 0.8 * len(names["right"])


def execute(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell; its last expression as a notebook shows it."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    for method in ("_repr_png_", "_repr_html_", "__repr__"):
        if hasattr(value, method):
            return getattr(value, method)()
    return None


def test_the_notebook_is_one_and_has_no_outputs_to_grow_old() -> None:
    assert NOTEBOOK["nbformat"] == 4 and len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])
    assert all(not cell.get("outputs") for cell in NOTEBOOK["cells"])
