"""`--overwrite` of folders that other programs wrote under names that elmokit uses: refused, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import entity_files
import language_model
import many_langs
import pytest
import synthetic
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from elmokit import weights
from elmokit.cli import app
from elmokit.disk.manifest import Manifest
from elmokit.errors import OutputError
from elmokit.tasks.runs.tagger_folder import TAGGER_FOLDER, pack_tagger
from elmokit.weights import allennlp, bilm_hdf5, efml
from elmokit.weights.files import MODEL_FOLDER

BERT = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 8, "vocab_size": 2}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_bert(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(BERT))
    save_file({"bert.embeddings.word_embeddings.weight": torch.ones(2, 8)}, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    (folder / "README.md").write_text("# My BERT, months of work\n")


def refused(arguments: list[str], folder: Path, *named: str) -> None:
    """The command fails in one line that names foreign files, and nothing in the folder changes."""
    before = content(folder)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    lines = [line for line in result.stderr.splitlines() if "warning" not in line]
    assert len(lines) == 1 and all(name in lines[0] for name in named), result.stderr
    assert content(folder) == before


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    weights.save(weights.load(language_model.write(folder / "published").folder), folder / "native")
    return folder / "native"


def test_a_bert_folder_is_no_model_of_ours(native: Path, tmp_path: Path) -> None:
    write_bert(tmp_path / "bert")
    named = ("config.json", "model.safetensors", "vocab.txt", "nothing was removed")
    for to in ("native", "hdf5", "allennlp"):
        refused(["convert", str(native), str(tmp_path / "bert"), "--to", to, "--overwrite"], tmp_path / "bert", *named)


def test_foreign_files_in_a_model_folder_of_ours(native: Path, tmp_path: Path) -> None:
    """A folder of a native model has neither model.safetensors nor config.json, whatever other formats have."""
    for name in ("model.safetensors", "config.json"):
        target = tmp_path / name
        weights.save(weights.load(native), target)
        write_bert(tmp_path / "bert")
        (target / name).write_bytes((tmp_path / "bert" / name).read_bytes())
        refused(["convert", str(native), str(target), "--overwrite"], target, f"found also {name};")


@pytest.mark.parametrize(
    "options", ["{}", "[]", "no JSON", '{"lstm": {}}', json.dumps({"lr": 0.1, "lstm": {"dim": 4, "projection_dim": 2}})]
)
def test_options_of_others(native: Path, tmp_path: Path, options: str) -> None:
    target = tmp_path / "other"
    target.mkdir()
    (target / "options.json").write_text(options)
    (target / "weights.safetensors").write_text("months of work")
    refused(["convert", str(native), str(target), "--overwrite"], target, "options.json")


def test_a_published_model_can_be_converted_in_place(tmp_path: Path) -> None:
    published = language_model.write(tmp_path / "published").folder
    expected = weights.load(published).fingerprint
    result = CliRunner().invoke(app, ["convert", str(published), str(published), "--overwrite"])
    assert result.exit_code == 0, result.output
    assert weights.load(published).fingerprint == expected and (published / "weights.safetensors").exists()
    (published / "thesis.txt").write_text("months of work")
    refused(["convert", str(published), str(published), "--overwrite"], published, "found also thesis.txt")


@pytest.mark.parametrize("first", ["native", "hdf5", "allennlp", "efml"])
def test_models_of_ours_are_replaced(native: Path, tmp_path: Path, first: str) -> None:
    model, target = weights.load(native), tmp_path / "model"
    if first == "efml":
        files = [("cnn.json", many_langs.architecture())]
        many_langs.write(tmp_path / "many", *many_langs.random_tensors(), files=files, legacy=False)
        efml.save(weights.load(tmp_path / "many"), target)
    else:
        save: dict[str, Callable[..., None]] = {
            "native": weights.save, "hdf5": bilm_hdf5.save, "allennlp": allennlp.save,
        }  # fmt: skip
        save[first](model, target)
    weights.save(model, target, overwrite=True)
    assert content(target) == content(native)


def test_a_transformers_folder_of_ours_is_replaced(native: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("elmokit.integrations.transformers", exc_type=ImportError)
    target = tmp_path / "model"
    transformers.save_folder(str(native), target)
    MODEL_FOLDER.require(target)
    (target / "vocab.txt").write_text("[PAD]\n")  # beside our config.json, a vocabulary is that of the model


def write_foreign_run(folder: Path) -> None:
    """Checkpoints of another program, under the names of ours."""
    write_bert(folder)
    (folder / "checkpoints").mkdir()
    save_file({"layer.weight": torch.ones(3)}, folder / "checkpoints" / "step-100.safetensors", {"format": "pt"})


def pretrain(text: Path, options: Path, output: Path) -> list[str]:
    flags = ["--train", str(text), "--steps", "1", "--options", str(options), "--batch-tokens", "60", "-q"]
    return ["pretrain", *flags, "-o", str(output)]


def test_checkpoints_of_others_are_no_run(native: Path, tmp_path: Path) -> None:
    text, run = synthetic.write(tmp_path / "text.txt", 10), tmp_path / "run"
    write_foreign_run(run)
    command = pretrain(text, native / "options.json", run)
    for flags in ([], ["--overwrite"], ["--resume"], ["--resume", "--overwrite"]):
        refused([*command, *flags], run)
    (run / "checkpoints" / "step-000000200.safetensors").write_text("no safetensors file at all")
    refused([*command, "--overwrite"], run)


def test_files_of_others_in_a_run_of_ours(native: Path, tmp_path: Path) -> None:
    text, run = synthetic.write(tmp_path / "text.txt", 10), tmp_path / "run"
    command = pretrain(text, native / "options.json", run)
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    ours = content(run)
    write_foreign_run(tmp_path / "other")
    for name in ("config.json", "README.md", "vocab.txt", "checkpoints/step-100.safetensors"):
        (run / name).write_bytes((tmp_path / "other" / name).read_bytes())
        refused([*command, "--overwrite"], run, f"found also {name}")
        (run / name).unlink()
        if name in ours:
            (run / name).write_bytes(ours[name])
    for checkpoint in (run / "checkpoints").iterdir():  # the run is still ours if its checkpoints are damaged
        checkpoint.write_bytes(b"damaged")
    result = CliRunner().invoke(app, [*command, "--overwrite"])
    assert result.exit_code == 0, result.output
    assert sorted(content(run)) == sorted(ours)


def check_foreign(manifest: Manifest, folder: Path, name: str) -> None:
    with pytest.raises(OutputError, match=f"found also {name}; nothing was removed"):
        manifest.require(folder)


@pytest.mark.parametrize("settings", ["{}", '{"task": "ner"}', '{"editor.fontSize": 12}', "no JSON", "[]"])
def test_settings_of_others_are_no_tagger(tmp_path: Path, settings: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "settings.json").write_text(settings)
    (folder / "README.md").write_text("# My project\n")
    check_foreign(TAGGER_FOLDER, folder, "settings.json")


def test_taggers_of_ours_are_replaced(native: Path, tmp_path: Path) -> None:
    train = str(entity_files.write(tmp_path / "ner.txt", 12))
    flags = ["--train", train, "--dev", train, "--model", str(native), "--epochs", "1", "--word-dim", "4"]
    small = ["--hidden", "8", "--character-filters", "4", "--cache-dir", str(tmp_path / "cache"), "-q"]
    result = CliRunner().invoke(app, ["task", "ner", "train", *flags, *small, "-o", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    pack_tagger(tmp_path / "run", tmp_path / "tagger")
    before = content(tmp_path / "tagger")
    pack_tagger(tmp_path / "run", tmp_path / "tagger", overwrite=True)
    assert content(tmp_path / "tagger") == before
    (tmp_path / "tagger" / "settings.json").write_text("{}")
    check_foreign(TAGGER_FOLDER, tmp_path / "tagger", "settings.json")
