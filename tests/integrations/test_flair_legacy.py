"""flair's `ELMoEmbeddings`, which runs AllenNLP 0.9, on elmokit.

flair is not installed beside the other integrations (see test_flair.py). Without it a stand-in makes the same calls
into AllenNLP: default files, `ElmoEmbedder`, one word to learn the dimension, `embed_batch`, and the steps after
unpickling.
"""

from __future__ import annotations

import importlib
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle import OracleState
from published_model import Published

from elmokit import compat
from elmokit.integrations.published import ADDRESSES

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("allennlp") is not None, reason="the real AllenNLP is installed here"),
    pytest.mark.filterwarnings("ignore"),  # flair and its dependencies warn a lot
]

TEXTS = [["The", "grass", "is", "green"], ["Ja"]]
OLD = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/"  # addresses in flair; the newer ones are AllenNLP's


class StandIn:
    """Calls of flair's class; texts are lists of words, and vectors are returned."""

    def __init__(self, model: str = "original", embedding_mode: str = "all") -> None:
        commands = importlib.import_module("allennlp.commands.elmo")
        files = commands.DEFAULT_OPTIONS_FILE, commands.DEFAULT_WEIGHT_FILE
        if model != "original":
            files = tuple(OLD + address.partition("/elmo/")[2] for address in ADDRESSES[model])
        self.embedding_mode = embedding_mode
        self.ee = commands.ElmoEmbedder(options_file=files[0], weight_file=files[1], cuda_device=-1)
        self.embedding_length = len(self.embed([["hello"]])[0][0])

    def embed(self, texts: list[list[str]]) -> list[list[torch.Tensor]]:
        found = self.ee.embed_batch(texts)
        return [
            [self._combine([torch.FloatTensor(layers[k, place, :]) for k in range(3)]) for place in range(len(text))]
            for layers, text in zip(found, texts, strict=True)
        ]

    def _combine(self, layers: list[torch.Tensor]) -> torch.Tensor:
        if self.embedding_mode == "top":
            return layers[-1]
        return torch.cat(layers, 0) if self.embedding_mode == "all" else torch.mean(torch.stack(layers), 0)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.ee.cuda_device = -1
        self.ee.elmo_bilm.to(device="cpu")
        lstm = self.ee.elmo_bilm._elmo_lstm
        lstm._states = tuple([state.to("cpu") for state in lstm._states])


def flair_class() -> Any:
    """flair's class with the interface of the stand-in, or the stand-in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data, legacy = (importlib.import_module(name) for name in ("flair.data", "flair.embeddings.legacy"))
        except ModuleNotFoundError:
            return StandIn

    class Real:
        def __init__(self, model: str = "original", embedding_mode: str = "all") -> None:
            self.inner = legacy.ELMoEmbeddings(model, embedding_mode=embedding_mode)
            self.embedding_length = self.inner.embedding_length

        def embed(self, texts: list[list[str]]) -> list[list[torch.Tensor]]:
            sentences = [data.Sentence(text) for text in texts]
            self.inner.embed(sentences)
            return [[token.embedding.cpu() for token in sentence] for sentence in sentences]

    return Real


@pytest.fixture
def embeddings_class(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("ELMOKIT_MODELS", str(tmp_path))
    compat.install()
    yield flair_class()
    compat.uninstall()


def write_copy(folder: Path, name: str, **shape: Any) -> Published:
    (folder / name).mkdir()
    model = Published(folder / name, **shape)
    for file, address in zip(model.files, ADDRESSES[name], strict=True):
        Path(file).rename(folder / Path(address).name)
    return model


@pytest.mark.parametrize("mode", ["all", "top", "average"])
def test_the_original_model(embeddings_class: Any, tmp_path: Path, mode: str) -> None:
    model = write_copy(tmp_path, "original")
    embeddings = embeddings_class("original", mode)
    assert embeddings.embedding_length == (36 if mode == "all" else 12)
    state = OracleState()
    model.embed(["hello"], state)  # the first row continues after this word
    expected = [model.embed(TEXTS[0], state), model.embed(TEXTS[1])]
    for found, layers in zip(embeddings.embed(TEXTS), expected, strict=True):
        rows = {"all": np.concatenate(layers, axis=1), "top": layers[2], "average": layers.mean(axis=0)}[mode]
        np.testing.assert_allclose(torch.stack(found), rows, atol=1e-5)


def test_another_model_by_its_old_address(embeddings_class: Any, tmp_path: Path) -> None:
    write_copy(tmp_path, "original")
    model = write_copy(tmp_path, "small", dim=4, projection_dim=3)
    embeddings = embeddings_class("small")
    assert embeddings.embedding_length == 18
    np.testing.assert_allclose(embeddings.embed([["x"], ["a"]])[1][0], model.embed(["a"]).reshape(-1), atol=1e-5)


def test_a_pickled_class_continues(embeddings_class: Any, tmp_path: Path) -> None:
    if embeddings_class is not StandIn:
        pytest.skip("the wrapper of flair's class is local to this test")
    write_copy(tmp_path, "original")
    embeddings = embeddings_class("original")
    twin = pickle.loads(pickle.dumps(embeddings))
    torch.testing.assert_close(twin.embed(TEXTS)[0][0], embeddings.embed(TEXTS)[0][0])


def test_without_the_files_the_error_names_them(embeddings_class: Any) -> None:
    with pytest.raises(Exception, match=r"put elmo_2x4096_512_2048cnn_2xhighway_options.json and"):
        embeddings_class("original")
