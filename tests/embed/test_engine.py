"""The engine against the numpy oracle, and the properties that its state policies promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import models
import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit import Elmo
from elmokit.embed.engine import WARM_UP, Engine
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError

SENTENCES = [
    ["The", "cat", "sat", "."],
    ["present"],
    ["Live", "in", "the", "present", ",", "not", "the", "past"],
    [],
    ["눈", "naïve", "<S>", ""],
    ["the"] * 11,
    ["x" * 70, "in", "a"],
]
words = st.text(alphabet="abcdé눈 ", max_size=6)
sentences = st.lists(st.lists(words, max_size=7), min_size=1, max_size=6)


def oracle_layers(
    model: tuple[Path, Any, Any], tokens: list[str], state: oracle.OracleState | None = None
) -> np.ndarray:
    _, options, weights = model
    return oracle.embed(tokens, options, weights, state, models.VOCABULARY)


def warm_state(model: tuple[Path, Any, Any]) -> oracle.OracleState:
    state = oracle.OracleState()
    for text in WARM_UP:
        oracle_layers(model, text.split(), state)
    return state


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    return models.write_variant(tmp_path_factory.mktemp("usual"), "usual")


@pytest.fixture(scope="module")
def usual_elmo(usual: tuple[Path, Any, Any]) -> dict[str, Elmo]:
    return {state: Elmo.from_pretrained(usual[0], state=state) for state in ("reset", "warm")}  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", models.VARIANTS)
def test_every_shape_equals_the_oracle(variant: str, tmp_path: Path) -> None:
    model = models.write_variant(tmp_path, variant)
    reset = Elmo.from_pretrained(tmp_path, state="reset")
    for sentence in reset.embed(SENTENCES):
        expected = oracle_layers(model, sentence.tokens)
        assert sentence.layers.shape == expected.shape
        np.testing.assert_allclose(sentence.layers, expected, atol=1e-5)
    warm = Elmo.from_pretrained(tmp_path, state="warm")
    for sentence in warm.embed(SENTENCES):
        np.testing.assert_allclose(sentence.layers, oracle_layers(model, sentence.tokens, warm_state(model)), atol=1e-5)
    carry = Elmo.from_pretrained(tmp_path, state="carry")
    state = oracle.OracleState()
    for _ in range(2):  # the state goes on from call to call
        for sentence in carry.embed(SENTENCES):
            np.testing.assert_allclose(sentence.layers, oracle_layers(model, sentence.tokens, state), atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 100])
def test_carried_rows(batch_size: int, usual: tuple[Path, Any, Any]) -> None:
    elmo = Elmo.from_pretrained(usual[0], state="carry")
    states = [oracle.OracleState() for _ in range(batch_size)]
    text = SENTENCES + SENTENCES[::-1]
    for k, sentence in enumerate(elmo.embed(text, batch_size=batch_size)):
        expected = oracle_layers(usual, text[k], states[k % batch_size])
        np.testing.assert_allclose(sentence.layers, expected, atol=1e-5)


def test_carried_state_can_be_taken_out_and_put_back(usual: tuple[Path, Any, Any]) -> None:
    first, second = (Elmo.from_pretrained(usual[0], state="carry") for _ in range(2))
    assert first.carried_state is None
    list(first.embed(SENTENCES, batch_size=2))
    second.carried_state = first.carried_state
    continued = [sentence.layers for sentence in first.embed(SENTENCES, batch_size=3)]
    for ours, theirs in zip(second.embed(SENTENCES, batch_size=3), continued, strict=True):
        np.testing.assert_allclose(ours.layers, theirs, atol=1e-6)
    with pytest.raises(ConfigError, match="carried_state: expected arrays of shapes"):
        second.carried_state = (first.carried_state or [])[:-1]
    with pytest.raises(ConfigError, match="carried_state: expected arrays of shapes"):
        second.carried_state = [array[: 1 + k % 2] for k, array in enumerate(first.carried_state or [])]
    second.reset_state()
    fresh = Elmo.from_pretrained(usual[0], state="carry").embed(SENTENCES)
    for ours, other in zip(second.embed(SENTENCES), fresh, strict=True):
        np.testing.assert_allclose(ours.layers, other.layers, atol=1e-6)


def test_published_fixture(shared_data: Path) -> None:
    folder = shared_data / "elmo" / "bilm-tf-fixture"
    elmo = Elmo.from_pretrained((folder / "options.json", folder / "lm_weights.hdf5"), state="carry")
    rows = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    with h5py.File(folder / "lm_embeddings_0.hdf5") as file:
        expected = [file[str(i)][...] for i in range(len(rows[0]))]  # (2, n, D), forward and backward
    text = [rows[k][i].split() for i in range(len(rows[0])) for k in range(len(rows))]
    embedded = list(elmo.embed(text, layers="top", batch_size=len(rows)))[:: len(rows)]
    for sentence, (forward, backward) in zip(embedded, expected, strict=True):
        np.testing.assert_allclose(sentence.vectors, np.concatenate((forward, backward), axis=1), atol=1e-6)


@pytest.mark.parametrize("state", ["reset", "warm"])
@given(text=sentences, data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_sentence_depends_on_itself_alone(
    state: str, usual: tuple[Path, Any, Any], usual_elmo: dict[str, Elmo], text: list[list[str]], data: st.DataObject
) -> None:
    elmo = usual_elmo[state]  # it has seen other sentences before, or not
    alone = [next(elmo.embed([sentence])).layers for sentence in text]
    order = data.draw(st.permutations(range(len(text))))
    batching = data.draw(st.sampled_from([{"batch_tokens": 1}, {"batch_tokens": 7}, {"batch_size": 2}, {}]))
    together = list(elmo.embed([text[k] for k in order], **batching))
    for k, sentence in zip(order, together, strict=True):
        assert sentence.tokens == text[k]
        np.testing.assert_allclose(sentence.layers, alone[k], atol=1e-5)


@given(text=sentences, capacity=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_any_cache_size_gives_the_same(usual_elmo: dict[str, Elmo], text: list[list[str]], capacity: int) -> None:
    elmo = usual_elmo["reset"]
    engine = Engine(elmo.model.bilm, WordReader(elmo.model), state="reset", cache_words=capacity)
    for _ in range(2):
        small = engine.embed(text, "all", 5)
        assert len(engine.cache) <= capacity
        for ours, sentence in zip(small, elmo.embed(text), strict=True):
            np.testing.assert_allclose(ours, sentence.layers, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads: int, usual: tuple[Path, Any, Any]) -> None:
    before = torch.get_num_threads()
    try:
        for sentence in Elmo.from_pretrained(usual[0], state="reset").embed(SENTENCES, threads=threads):
            np.testing.assert_allclose(sentence.layers, oracle_layers(usual, sentence.tokens), atol=1e-5)
    finally:
        torch.set_num_threads(before)


@given(tokens=st.lists(words, min_size=2, max_size=5), data=st.data())
@settings(max_examples=25, deadline=None)
def test_forward_sees_the_past_and_backward_the_future(
    usual_elmo: dict[str, Elmo], tokens: list[str], data: st.DataObject
) -> None:
    elmo = usual_elmo["reset"]
    k = data.draw(st.integers(0, len(tokens) - 1))
    changed = [*tokens[:k], "Zebra" + tokens[k], *tokens[k + 1 :]]
    before, after = (sentence.layers for sentence in elmo.embed([tokens, changed]))
    static = np.abs(before - after)[0].max(axis=1)
    assert static[k] > 1e-2 and (np.delete(static, k) == 0).all()
    d = elmo.config.lstm.projection_dim
    for layer in (1, 2):
        forward = np.abs(before - after)[layer, :, :d].max(axis=1)
        backward = np.abs(before - after)[layer, :, d:].max(axis=1)
        assert (forward[:k] < 1e-6).all() and (forward[k:] > 1e-6).all()  # k and all after it, nothing before it
        assert (backward[k + 1 :] < 1e-6).all() and (backward[: k + 1] > 1e-6).all()


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_skipping_leaves_everything_as_embedding_does(state: str, usual: tuple[Path, Any, Any]) -> None:
    """To the last bit: a word's vector is rounded by the company in which it was first encoded."""
    options: dict[str, Any] = {"batch_size": 2, "layers": "top"}
    first, second = (Elmo.from_pretrained(usual[0], state=state) for _ in range(2))  # type: ignore[arg-type]
    list(first.embed(SENTENCES[:5], **options))
    second.skip(SENTENCES[:5], **options)
    second.carried_state = first.carried_state
    for ours, theirs in zip(first.embed(SENTENCES, **options), second.embed(SENTENCES, **options), strict=True):
        np.testing.assert_array_equal(ours.layers, theirs.layers)
