"""The examples on the pages of spaCy, scikit-learn and other libraries run against the real packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import elmokit
from elmokit import Elmo

PAGES = Path(__file__).parents[2] / "docs" / "integrations"
ELSEWHERE = "<!-- flair -->\n"  # needs an environment of its own
OUTPUT = {  # the start of a line that the example prints last; 2D is the size of the packaged vectors
    "scikit-learn: Classify texts": "['animal']",
    "scikit-learn: Search over layers, in two processes": "1.0",
    "scikit-learn: Text beside other columns": "(3, 2D + 1) review__elmotransformer0",
    "scikit-learn: Tag tokens": "[['",
    "spacy: Vectors in context": "(2D,) 0.",
    "spacy: Many texts": "0.",
    "spacy: Saving": "0.0",
    "spacy: Train a pipeline on ELMo": "(Eve, London)",
    "other: gensim": "[('kings', 0.",
    "other: pandas": "(12, 2) (2D,)",
    "other: pyarrow": "list<element: fixed_size_list<element: float>[2D]>",
    "other: Hugging Face datasets": "List(List(Value('float32'), length=2D)) 7",
    "other: DataLoader": "12",
    "other: flair": "torch.Size([3 * 2D])",
}


def examples() -> list[tuple[str, str]]:
    """Title and text of every block of Python."""
    return [
        (f"{name}: {section.splitlines()[0]}", mark + block)
        for name in ("scikit-learn", "spacy", "other")
        for section in (PAGES / f"{name}.md").read_text(encoding="utf-8").split("\n## ")
        for mark, block in re.findall(rf"({re.escape(ELSEWHERE)})?```python\n(.*?)```", section, flags=re.DOTALL)
    ]


def test_every_example_is_listed() -> None:
    assert [title for title, _ in examples()] == list(OUTPUT)


def run(title: str, block: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run an example: in this process, or as a script where worker processes import its functions."""
    for package in re.findall(r"^(?:import|from) (\w+)", block, flags=re.MULTILINE):
        if find_spec(package) is None:
            pytest.skip(f"needs {package}")
    if "spacy.blank" in block and not any(point.name == "elmo" for point in entry_points(group="spacy_factories")):
        pytest.skip("elmokit is not installed with its entry points: pip install -e .")
    if re.search("^(def|class) ", block, flags=re.MULTILINE):
        (folder / "example.py").write_text(block, encoding="utf-8")
        paths = [str(Path(elmokit.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "HF_HOME": str(folder / "hf")}
        command = [sys.executable, "example.py"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
        assert result.returncode == 0, result.stderr
        output = result.stdout
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of joblib about its workers, of spaCy about hooks
            exec(compile(block, title, "exec"), {"__name__": "__main__"})
        output = capsys.readouterr().out
    assert output.splitlines()[-1].startswith(_with_sizes(OUTPUT[title])), output


def _with_sizes(promise: str) -> str:
    dim = Elmo.from_pretrained().config.vector_dim
    for form, size in (("2D + 1", dim + 1), ("3 * 2D", 3 * dim), ("2D", dim)):
        promise = promise.replace(form, str(size))
    return promise


@pytest.mark.parametrize(("title", "block"), [found for found in examples() if not found[1].startswith(ELSEWHERE)])
def test_examples(
    title: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(title, block, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(("title", "block"), [found for found in examples() if found[1].startswith(ELSEWHERE)])
def test_examples_with_their_own_environment(
    title: str, block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(title, block.removeprefix(ELSEWHERE), tmp_path, capsys)


def definitions(title: str) -> dict[str, Any]:
    """Functions and classes of an example, without what it does as a script."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(dict(examples())[title], title, "exec"), names)
    return names


def test_numbers_of_the_collate_function() -> None:
    elmo = Elmo.from_pretrained()
    batch = [(["A", "short", "one"], 0), (["Two", "words"], 1)]
    vectors, lengths, labels = definitions("other: DataLoader")["Collate"](elmo)(batch)
    for k, sentence in enumerate(elmo.embed([tokens for tokens, _ in batch])):
        np.testing.assert_allclose(vectors[k, : len(sentence)], sentence.vectors, atol=1e-5)
    assert not vectors[1, 2].any() and lengths.tolist() == [3, 2] and labels.tolist() == [0, 1]


def test_numbers_of_the_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets", reason="needs datasets")
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)  # those of this process stay
    texts = ["I will buy you a present.", "Live in the present."]
    found = definitions("other: Hugging Face datasets")["add_vectors"]({"text": texts})
    for tokens, vectors, sentence in zip(*found.values(), Elmo.from_pretrained().embed(texts), strict=True):
        assert tokens == sentence.tokens
        np.testing.assert_allclose(vectors, sentence.vectors, atol=1e-5)
