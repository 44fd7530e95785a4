"""The packages of models for other languages, in languages/."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmokit import Elmo, weights
from elmokit.cli import app
from elmokit.serve.pages import language

ROOT = Path(__file__).parents[1]
PACKAGES = sorted((ROOT / "languages").glob("*"))
pytestmark = pytest.mark.skipif(not PACKAGES, reason="the source distribution has no models of other languages")


def model_of(package: Path) -> Path:
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))
    [(name, module)] = project["project"]["entry-points"]["elmokit.models"].items()
    assert name == package.name and project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [module]
    return package / module


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_is_a_small_model_with_a_card(package: Path) -> None:
    folder = model_of(package)
    model = weights.load(folder)
    assert language(model.card) == model.short_name == package.name and model.license == "cc-by-sa-4.0"
    assert model.vocabulary is not None and model.read_softmax is not None
    assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) < 9_000_000
    assert (folder / "__init__.py").is_file()  # the entry point names a module
    shape = json.loads((ROOT / "recipes" / "languages" / f"{package.name}.json").read_text(encoding="utf-8"))
    options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    assert [options[part] for part in ("lstm", "char_cnn")] == [shape[part] for part in ("lstm", "char_cnn")]


@pytest.mark.parametrize(("name", "word", "expected"), [("ko", "눈이", 16), ("zh", "花", 18)])
def test_occurrences_of_a_word_are_nearest_to_those_of_its_sense(
    name: str, word: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snow and eye in Korean, flower and to spend in Chinese; 10 of 20 would be chance."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    elmo = Elmo.from_pretrained(model_of(ROOT / "languages" / name))
    lines = (ROOT / "examples" / f"senses-{name}.txt").read_text(encoding="utf-8").splitlines()
    count_right = importlib.import_module("nearest_sense").count_right
    assert max(count_right(elmo, word, lines)) >= expected


def test_a_corpus_is_read_as_the_model_reads_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chinese text has no spaces: its characters are found without a tokenizer being named."""
    model = str(model_of(ROOT / "languages" / "zh"))
    corpus = str(ROOT / "examples" / "senses-zh.txt")
    monkeypatch.chdir(tmp_path)
    question = ["她花了五百元買書。", "--word", "花", "--model", model, "--layers", "1", "-k", "3"]
    index = CliRunner().invoke(app, ["index", "build", "--corpus", corpus, "--model", model, "--layer", "1", "-o", "x"])
    assert index.exit_code == 0, index.output
    for source in (["--corpus", corpus], ["--index", "x"]):
        layers = question if source[0] == "--corpus" else [*question[:5], "-k", "3"]
        found = CliRunner().invoke(app, ["neighbors", *layers, *source, "--quiet"])
        assert found.exit_code == 0, found.output
        assert "他 **花** 了 很 多 錢 買 車 。" in found.output and "punctuation attached" not in found.output
    scored = CliRunner().invoke(app, ["perplexity", model, corpus, "--json", "--quiet"])
    assert scored.exit_code == 0 and json.loads(scored.stdout)["out_of_vocabulary"] < 0.01
