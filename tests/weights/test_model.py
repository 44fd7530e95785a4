"""A loaded model: its softmax, size and fingerprint, and networks built from tensors."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from tiny_bilm import random_bilm

from elmokit import weights
from elmokit.config import ModelConfig
from elmokit.errors import ConfigError, FormatError
from elmokit.nn.softmax import assemble_head
from elmokit.weights.model import Model, Origin, assemble, mismatch, read_config

Published = tuple[dict[str, Any], dict[str, np.ndarray]]


@pytest.fixture
def model(published: Published) -> Model:
    config = ModelConfig.from_options(published[0])
    return Model(config, random_bilm(config))


def test_a_softmax_is_read_at_each_call(model: Model) -> None:
    assert not model.has_softmax
    with pytest.raises(ConfigError, match=r"memory model: expected a softmax for word probabilities, found none; fit"):
        model.softmax()
    model.read_softmax = lambda: assemble_head({"weight": torch.ones(3, 6), "bias": torch.zeros(3)})
    assert model.has_softmax and model.softmax().n_words == 3 and model.softmax() is not model.softmax()
    model.vocabulary = ("<S>", "</S>")
    with pytest.raises(FormatError, match="softmax: expected 2 rows, one per word of the vocabulary, found 3"):
        model.softmax()


def test_parameters_are_counted_without_the_row_for_padding(model: Model, published: Published) -> None:
    """A published file holds each parameter once, and no row for padding."""
    assert model.parameter_count == sum(array.size for array in published[1].values())


def test_a_fingerprint_is_that_of_the_network(model: Model) -> None:
    twin = Model(model.config, model.bilm, format="another", card="# A card", files=(Path("x"),))
    assert twin.fingerprint == model.fingerprint and len(model.fingerprint) == 64
    assert Model(dataclasses.replace(model.config, state="warm"), model.bilm).fingerprint == model.fingerprint
    clip = dataclasses.replace(model.config.lstm, cell_clip=2.5)
    assert Model(dataclasses.replace(model.config, lstm=clip), model.bilm).fingerprint != model.fingerprint
    assert Model(model.config, model.bilm, alphabet={"a": 1}).fingerprint != model.fingerprint
    with torch.no_grad():
        next(model.bilm.parameters())[-1, -1] += 1e-3
    assert Model(model.config, model.bilm).fingerprint != twin.fingerprint


def test_where_it_comes_from() -> None:
    assert str(Origin(None)) == "the packaged model"
    assert str(Origin("/a/b")) == "/a/b" and str(Origin(("/a", "/b"))) == "/a, /b"


def test_errors_of_options_name_their_file(published: Published) -> None:
    assert read_config(published[0], "f") == ModelConfig.from_options(published[0])
    with pytest.raises(ConfigError, match=r"^f: "):
        read_config({"lstm": {}}, "f")


def test_assemble_takes_tensors_as_they_are(model: Model) -> None:
    tensors = {name: tensor.clone() for name, tensor in model.bilm.state_dict().items()}
    built = assemble(model.config, {**tensors, "elsewhere": torch.ones(1)}, "f").state_dict()
    assert built.keys() == tensors.keys() and all(torch.equal(built[name], tensors[name]) for name in tensors)


def test_tensors_that_do_not_fit(model: Model) -> None:
    tensors = model.bilm.state_dict()
    missing = {name: tensor for name, tensor in tensors.items() if name != "forward_layers.0.bias"}
    with pytest.raises(FormatError, match=r"f: expected tensor forward_layers\.0\.bias of shape \(\d+,\), found none"):
        assemble(model.config, missing, "f")
    with pytest.raises(FormatError, match=r"f: expected forward_layers\.0\.bias .* found \(3,\); these options belong"):
        assemble(model.config, {**tensors, "forward_layers.0.bias": torch.ones(3)}, "f")
    with pytest.raises(FormatError, match=r"f: expected no forward_layers\.9\.bias with these options, found \(3,\)"):
        assemble(model.config, {**tensors, "forward_layers.9.bias": torch.ones(3)}, "f")
    deep = dataclasses.replace(model.config, lstm=dataclasses.replace(model.config.lstm, n_layers=10**6))
    with pytest.raises(FormatError, match=r"f: expected weights of 1000000 layers, found"):
        assemble(deep, tensors, "f")
    wide = dataclasses.replace(model.config, lstm=dataclasses.replace(model.config.lstm, dim=2**62))
    with pytest.raises(FormatError, match="f: expected sizes that fit into memory, found"):
        assemble(wide, tensors, "f")
    assert (
        mismatch("f", "x", (1,), (2,))
        == "f: expected x of shape (1,), found (2,); these options belong to other weights"
    )


def test_origin_of_a_loaded_model(tmp_path: Path, write_hdf5: Any) -> None:
    folder = write_hdf5(tmp_path / "m", *oracle.random_model(np.random.default_rng(1)))
    assert weights.load(folder).origin == Origin(str(folder))
