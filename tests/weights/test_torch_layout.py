"""State dicts in PyTorch's layout: shapes inferred from tensors, conversion, and what is refused."""

from __future__ import annotations

import collections
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_bilm import random_bilm
from torch import Tensor

from elmokit.config import ModelConfig
from elmokit.errors import FormatError
from elmokit.weights.files import single
from elmokit.weights.table import ZERO_PADDING_ROW, write_table
from elmokit.weights.torch_layout import Names, convert, infer_config, read_state_dict, table, write_state_dict

NAMES = Names(
    words="words.weight",
    characters="chars.weight",
    character_layout=ZERO_PADDING_ROW,
    convolution="conv.{}",
    highway="highways.{}",
    projection="projection",
    lstm="{}.{}",
)


@pytest.fixture
def config(published: tuple[dict[str, Any], dict[str, np.ndarray]]) -> ModelConfig:
    return dataclasses.replace(ModelConfig.from_options(published[0]), state="warm")


@pytest.fixture
def ours(config: ModelConfig) -> dict[str, Tensor]:
    return random_bilm(config).state_dict()


@pytest.fixture
def theirs(config: ModelConfig, ours: dict[str, Tensor]) -> dict[str, Tensor]:
    return dict(write_table(table(config, NAMES), ours))


def test_shapes_tell_the_configuration(config: ModelConfig, theirs: dict[str, Tensor]) -> None:
    assert config.char_cnn is not None
    found = infer_config(
        theirs,
        NAMES,
        "x",
        alphabet="bytes",
        activation=config.char_cnn.activation,
        max_characters=config.char_cnn.max_characters,
        cell_clip=config.lstm.cell_clip,
        proj_clip=config.lstm.proj_clip,
    )
    assert found.lstm == config.lstm and found.char_cnn == config.char_cnn and found.n_words == 0


def test_conversion_is_exact_and_consumes(
    config: ModelConfig, ours: dict[str, Tensor], theirs: dict[str, Tensor]
) -> None:
    converted = convert(theirs, config, NAMES, "x")
    assert not theirs  # so that the model is never in memory twice
    assert converted.keys() == ours.keys()
    ours["token_encoder.char_embedding"][0] = 0  # the row for padding, which is masked
    assert all(torch.equal(tensor, ours[name]) for name, tensor in converted.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chars.weight": None}, r"x: expected tensor chars\.weight with 2 dimensions, found none"),
        ({"chars.weight": torch.ones(3)}, r"x: expected tensor chars\.weight with 2 dimensions, found \(3,\)"),
        ({"forward.0.state_projection.weight": None}, r"x: expected tensor forward\.0\.state_projection\.weight"),
    ],
)
def test_shapes_that_tell_nothing(change: dict[str, Tensor | None], message: str, theirs: dict[str, Tensor]) -> None:
    changed = {name: tensor for name, tensor in (theirs | change).items() if tensor is not None}
    with pytest.raises(FormatError, match=message):
        infer_config(changed, NAMES, "x", alphabet="bytes")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conv.0.bias": None}, r"x: expected tensor conv\.0\.bias of shape \(\d+,\), found none"),
        ({"conv.0.bias": torch.ones(99)}, r"x: expected conv\.0\.bias of shape .* found \(99,\)"),
        ({"conv.7.bias": torch.ones(99)}, r"x: expected no conv\.7\.bias in a model of this shape, found \(99,\)"),
    ],
)
def test_tensors_that_do_not_fit(
    change: dict[str, Tensor | None], message: str, config: ModelConfig, theirs: dict[str, Tensor]
) -> None:
    changed = {name: tensor for name, tensor in (theirs | change).items() if tensor is not None}
    with pytest.raises(FormatError, match=message):
        convert(changed, config, NAMES, "x")


def test_numbers_must_be_finite(config: ModelConfig, theirs: dict[str, Tensor]) -> None:
    theirs["conv.0.bias"][0] = float("nan")
    with pytest.raises(FormatError, match=r"x: expected finite numbers in conv\.0\.bias, found nan"):
        convert(theirs, config, NAMES, "x")


@pytest.mark.parametrize("legacy", [True, False])
def test_state_dicts_are_read(tmp_path: Path, legacy: bool) -> None:
    content = collections.OrderedDict(
        a=torch.ones(3), b=torch.nn.Parameter(torch.zeros(2, 2)), c=torch.ones(2).half(), epoch=3, ids=torch.tensor([1])
    )
    torch.save(content, tmp_path / "x.th", _use_new_zipfile_serialization=not legacy)
    assert sorted(read_state_dict(single(tmp_path / "x.th"))) == ["a", "b", "c"]


def test_a_state_dict_there_and_back(tmp_path: Path, theirs: dict[str, Tensor]) -> None:
    write_state_dict(theirs, tmp_path / "x.th")
    found = read_state_dict(single(tmp_path / "x.th"))
    assert found.keys() == theirs.keys() and all(torch.equal(found[name], theirs[name]) for name in found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.ones(1)], "expected a state dict, found list"),
        ({"epoch": 3}, "expected a state dict with tensors, found none"),
        ({"a": torch.ones(1).expand(10**6)}, "expected a dense tensor a, found a sparse or expanded one"),
        ({"a": torch.eye(3).to_sparse()}, "expected a pickle of tensors and nothing else; it was refused"),
    ],
)
def test_pickles_of_something_else(content: object, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "x.th")
    with pytest.raises(FormatError, match=message):
        read_state_dict(single(tmp_path / "x.th"))
