"""ElmoEmbedding: a layer that takes tokens or ids."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest
import torch

from elmokit import Elmo, ElmoEmbedding
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, InputError
from elmokit.weights import load

SENTENCES = [["A", "short", "one", "."], [], ["the", "present"]]


@pytest.fixture(params=["usual", "words"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return models.write_variant(tmp_path, request.param)[0]


def test_tokens_and_ids_give_the_vectors_of_elmo(folder: Path) -> None:
    layer = ElmoEmbedding.from_pretrained(folder, n_mixes=2, dropout=0.0)
    output = layer(SENTENCES)
    assert len(output.representations) == 2
    assert output.mask.tolist() == [[True] * 4, [False] * 4, [True, True, False, False]]
    embedded = list(Elmo.from_pretrained(folder, state="reset").embed(SENTENCES, layers="average"))
    for representation in output.representations:
        assert representation.shape == (3, 4, layer.vector_dim)
        assert not representation[~output.mask].any()
        for row, sentence in zip(representation, embedded, strict=True):
            np.testing.assert_allclose(row[: len(sentence)].detach(), sentence.vectors, atol=1e-5)
    ids, mask = layer.ids(SENTENCES)
    tensor = ids.words if ids.characters is None else ids.characters
    assert tensor is not None
    for same in (layer(ids, mask), layer(tensor, mask)):
        assert torch.equal(same.representations[0], output.representations[0])


def test_only_the_mixes_learn_unless_asked(folder: Path) -> None:
    frozen, trained = (ElmoEmbedding.from_pretrained(folder, trainable=yes) for yes in (False, True))
    assert {name.split(".")[0] for name, p in frozen.named_parameters() if p.requires_grad} == {"mixes"}
    trained(SENTENCES).representations[0].sum().backward()
    assert all(p.grad is not None for p in trained.bilm.parameters() if p.requires_grad)


def test_the_long_way_still_works(folder: Path) -> None:
    model = load(folder)
    reader = WordReader(model)
    layer = ElmoEmbedding(model.bilm, marks=reader.marks(), dropout=0.0)
    flat = reader(["the", "present"]).map(lambda tensor: tensor.unsqueeze(0))
    mask = torch.ones(1, 2, dtype=torch.bool)
    expected = ElmoEmbedding.from_pretrained(folder, dropout=0.0)([["the", "present"]])
    assert torch.equal(layer(flat, mask).representations[0], expected.representations[0])
    with pytest.raises(ConfigError, match="this layer has no reader"):
        layer([["the"]])


def test_wrong_arguments_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="bilm: expected the network of a model, found Tensor; use"):
        ElmoEmbedding(torch.zeros(1, 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="found a Tensor; call the layer with it"):
        ElmoEmbedding.from_pretrained(torch.zeros(1))  # type: ignore[arg-type]
    layer = ElmoEmbedding.from_pretrained(models.write_variant(tmp_path, "usual")[0])
    with pytest.raises(TypeError, match="reader: expected one, or marks"):
        ElmoEmbedding(layer.bilm)
    with pytest.raises(InputError, match=r"ids of shape \(B, T, \d+\), found \(1, 2\) of float32"):
        layer(torch.zeros(1, 2))
    with pytest.raises(InputError, match="found one string"):
        layer("a text")
    with pytest.raises(InputError, match="found 'a text' at 0; split text first"):
        layer(["a text"])
    with pytest.raises(InputError, match="expected lists of tokens, or ids, found NoneType"):
        layer(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected one list of tokens or more, found none"):
        layer([])
    with pytest.raises(InputError, match="expected lists of tokens, found '3' at 1"):
        layer([["a"], 3])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="mask: expected None"):
        layer([["a"]], torch.ones(1, 1))
    for wrong, name in ({"n_mixes": 0}, "n_mixes"), ({"dropout": 1.5}, "dropout"):
        with pytest.raises(ConfigError, match=name):
            ElmoEmbedding.from_pretrained(**wrong)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # the compiler's own
def test_a_compiled_model_runs_the_layer_as_it_is(folder: Path) -> None:
    layer = ElmoEmbedding.from_pretrained(folder, dropout=0.0)
    model = torch.nn.ModuleDict({"elmo": layer, "out": torch.nn.Linear(layer.vector_dim, 2)})

    def scores(sentences: list[list[str]]) -> torch.Tensor:
        return torch.tanh(model["out"](model["elmo"](sentences).representations[0]))

    compiled = torch.compile(scores, backend="eager")
    for sentences in (SENTENCES, [["a"]]):
        torch.testing.assert_close(compiled(sentences), scores(sentences))
    compiled(SENTENCES).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
