"""Folders of transformers, read without that library: bare, with a classifier, fine-tuned, and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from elmokit import weights
from elmokit.errors import FormatError
from elmokit.weights import Model, files
from elmokit.weights.transformers_folder import CONFIG, MODEL_TYPE, WEIGHTS, is_transformers


@pytest.fixture
def model(tmp_path: Path, write_hdf5: Any, published: Any) -> Model:
    return weights.load(write_hdf5(tmp_path / "source", *published))


@pytest.fixture
def folder(tmp_path: Path, model: Model) -> Path:
    """A bare model with a mix that was not trained."""
    target = tmp_path / "transformers"
    target.mkdir()
    (target / CONFIG).write_text(json.dumps({"model_type": MODEL_TYPE, "options": model.config.to_options()}))
    tensors = {f"bilm.{name}": tensor.contiguous() for name, tensor in model.bilm.state_dict().items()}
    mix = {"mix.scalars": torch.zeros(model.config.n_vectors), "mix.gamma": torch.ones(1)}
    save_file({**tensors, **mix}, target / WEIGHTS)
    return target


def test_a_bare_model(folder: Path, model: Model) -> None:
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    assert is_transformers(files.folder(folder)) and not is_transformers({})
    found = weights.load(folder)
    assert found.fingerprint == model.fingerprint and found.format == "transformers"
    assert found.license == "mit" and found.card is not None and found.mixes == ()
    assert [path.name for path in found.files] == [CONFIG, WEIGHTS, "README.md"]


def test_a_classifier_on_top_is_left_out(folder: Path, model: Model) -> None:
    tensors = {f"elmo.{name}": tensor for name, tensor in load_file(folder / WEIGHTS).items()}
    tensors["elmo.mix.scalars"] = torch.arange(float(model.config.n_vectors))
    save_file({**tensors, "classifier.weight": torch.ones(2, 3)}, folder / WEIGHTS)
    found = weights.load(folder)
    assert found.fingerprint == model.fingerprint
    (mix,) = found.mixes
    assert mix.weights == tuple(range(model.config.n_vectors)) and mix.gamma == 1


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "bert"}, r"config\.json: expected model_type 'elmo', found 'bert'"),
        ([], r"config\.json: expected model_type 'elmo', found 'list'"),
        ({"model_type": "elmo", "options": {"lstm": {}}}, r"config\.json: "),
    ],
)
def test_another_config(config: Any, message: str, folder: Path) -> None:
    (folder / CONFIG).write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        weights.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bilm.forward_layers.0.bias": None}, r"expected tensor forward_layers\.0\.bias of shape"),
        ({"mix.scalars": torch.ones(9)}, r"expected 3 weights in mix\.scalars, found \(9,\)"),
    ],
)
def test_tensors_that_do_not_fit(change: dict[str, torch.Tensor | None], message: str, folder: Path) -> None:
    tensors = {**load_file(folder / WEIGHTS), **change}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, folder / WEIGHTS)
    with pytest.raises(FormatError, match=message):
        weights.load(folder)
