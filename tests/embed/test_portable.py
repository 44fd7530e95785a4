"""An Elmo as data: pickle, deepcopy and spawned processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from embed_in_process import sum_of_layers
from models import write_variant
from random_words import largest_difference, layers, sentences

from elmokit import Elmo, weights
from elmokit.errors import ConfigError, FormatError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_variant(tmp_path_factory.mktemp("model"), "usual")[0]


@pytest.fixture(scope="module")
def elmo(folder: Path) -> Elmo:
    return Elmo.from_pretrained(folder)


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
@pytest.mark.parametrize("options", [{}, {"state": "carry"}, {"dtype": "int8"}, {"dtype": "float16"}], ids=str)
def test_a_copy_is_the_same(folder: Path, way: str, options: dict[str, str]) -> None:
    elmo = Elmo.from_pretrained(folder, **options)  # type: ignore[arg-type]
    layers(elmo, sentences(1, 3))
    content = pickle.dumps(elmo)
    again = pickle.loads(content) if way == "pickle" else copy.deepcopy(elmo)
    assert len(content) < 10_000  # a path, no weights
    assert (again.state, again.dtype, again.device) == (elmo.state, elmo.dtype, elmo.device)
    assert again.model.fingerprint == elmo.model.fingerprint
    # the copy has an empty word cache, and a word's vector is rounded by the company in which it was first encoded
    assert largest_difference(layers(again, sentences(2)), layers(elmo, sentences(2))) < 1e-6
    fresh = Elmo.from_pretrained(folder, **options)  # type: ignore[arg-type]
    again.reset_state()
    assert largest_difference(layers(pickle.loads(pickle.dumps(again)), sentences(2)), layers(fresh, sentences(2))) == 0


def test_a_model_from_memory_travels_with_its_weights(folder: Path) -> None:
    model = weights.load(folder)
    model.origin = None
    elmo = Elmo(model)
    again = pickle.loads(pickle.dumps(elmo))
    assert again.model.fingerprint == elmo.model.fingerprint and again.model.vocabulary == elmo.model.vocabulary
    assert largest_difference(layers(again, sentences(3)), layers(elmo, sentences(3))) == 0
    other = weights.load(folder)
    other.origin = None
    with pytest.raises(ConfigError, match="save the float32 model with save_pretrained"):
        pickle.dumps(Elmo(other, dtype="int8"))


def test_a_model_that_has_changed_since(tmp_path: Path, folder: Path) -> None:
    elmo = Elmo.from_pretrained(folder)
    elmo.save_pretrained(tmp_path / "model")
    content = pickle.dumps(Elmo.from_pretrained(tmp_path / "model"))
    other = write_variant(tmp_path / "other", "usual", seed=9)[0]
    Elmo.from_pretrained(other).save_pretrained(tmp_path / "model", overwrite=True)
    with pytest.raises(FormatError, match="expected the model that was pickled, found another"):
        pickle.loads(content)


def test_spawned_processes(elmo: Elmo) -> None:
    texts = [["word1", "word2"], ["word3"]]
    # the function comes from a module that the process can import; a worker that dies is an error, not a wait
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(sum_of_layers, [elmo] * len(texts), texts))
    assert found == [sum_of_layers(elmo, text) for text in texts]
