"""Whole texts: encode, similarity, tokens; streams and sentences that explain themselves."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path

import models
import numpy as np
import pytest

import elmokit
from elmokit import Elmo
from elmokit.embed.sentence import EmbeddedSentence
from elmokit.embed.texts import cosines
from elmokit.errors import ConfigError, InputError

TEXTS = ["I will buy you a present.", "", "Live in the present!"]


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    folder = models.write_variant(tmp_path_factory.mktemp("model"), "usual")[0]
    return elmokit.load(folder, state="reset")


def test_encode_is_the_pooled_average_of_the_layers(elmo: Elmo) -> None:
    rows = elmo.encode(TEXTS)
    assert rows.shape == (3, elmo.config.vector_dim)
    for row, sentence in zip(rows, elmo.embed(TEXTS), strict=True):
        np.testing.assert_allclose(row, sentence.vector("mean"), atol=1e-6)
    assert not rows[1].any()
    np.testing.assert_allclose(elmo.encode(TEXTS[0]), rows[0], atol=1e-6)
    np.testing.assert_allclose(elmo.encode(iter(TEXTS)), rows, atol=1e-6)
    np.testing.assert_allclose(elmo.encode([elmo.tokens(TEXTS[0])])[0], rows[0], atol=1e-6)
    assert elmo.encode([]).shape == (0, elmo.config.vector_dim)
    top = next(elmo.embed([TEXTS[2]], layers="top")).vector("max", punctuation=False)
    np.testing.assert_allclose(elmo.encode(TEXTS[2], pool="max", layers="top", punctuation=False), top, atol=1e-6)


def test_similarity(elmo: Elmo) -> None:
    matrix = elmo.similarity(TEXTS, TEXTS)
    assert matrix.shape == (3, 3)
    np.testing.assert_allclose(np.diag(matrix), [1, 0, 1], atol=1e-6)
    one = elmo.similarity(TEXTS[0], TEXTS[2])
    assert isinstance(one, float) and one == pytest.approx(matrix[0, 2], abs=1e-6)
    np.testing.assert_allclose(elmo.similarity(TEXTS[0], TEXTS), matrix[0], atol=1e-6)
    np.testing.assert_allclose(elmo.similarity(elmo.encode(TEXTS), TEXTS[0]), matrix[:, 0], atol=1e-6)


def test_cosines_of_other_shapes_are_errors() -> None:
    with pytest.raises(ConfigError, match="second: expected vectors of 3 numbers, as first has, found 2"):
        cosines(np.ones((1, 3)), np.ones(2))
    with pytest.raises(ConfigError, match="first: expected vectors"):
        cosines(np.ones((1, 1, 3)), np.ones(3))


def test_tokens(elmo: Elmo) -> None:
    assert elmo.tokens("It isn't (so).") == ["It", "is", "n't", "(", "so", ")", "."]
    assert elmo.tokens(["a b.", ""]) == [["a", "b", "."], []]
    assert elmo.tokens("a b.", tokenizer="spaces") == ["a", "b."]


def test_the_model_has_a_tokenizer_of_its_own(elmo: Elmo) -> None:
    assert elmo.tokenizer == "words" and elmo.config.tokenizer is None
    model = replace(elmo.model, config=replace(elmo.config, tokenizer="spaces"))
    other = object.__new__(Elmo)
    other.__dict__ = {**elmo.__dict__, "model": model}
    assert other.tokens("a b.") == ["a", "b."]
    assert [s.tokens for s in other.embed(["a b."])] == [["a", "b."]]
    assert [s.tokens for s in other.embed(["a b."], tokenizer="words")] == [["a", "b", "."]]


def test_what_is_shown(elmo: Elmo) -> None:
    assert re.fullmatch(r"Elmo\(model\d+, 2x12/6, layers 0-2, state=reset, float32, cpu\)", repr(elmo))
    sentence = EmbeddedSentence(["<b>", "&"], np.zeros((3, 2, 4), np.float32))
    assert repr(sentence) == "EmbeddedSentence('<b> &', 2 tokens, layers (3, 2, 4))"
    html = sentence._repr_html_()
    assert "&lt;b&gt;" in html and "vectors (2, 4), layers (3, 2, 4), float32" in html


def test_a_warning_once_for_text_that_is_not_tokenized(
    tmp_path: Path, elmo: Elmo, caplog: pytest.LogCaptureFixture
) -> None:
    fresh = Elmo(elmo.model, state="reset")
    with caplog.at_level(logging.WARNING, logger="elmokit"):
        list(fresh.embed(["One, two, three. And four!"]))
        assert not caplog.records
        for _ in range(2):
            list(fresh.embed(["One, two, three. And four!"], tokenizer="spaces"))
    assert len(caplog.records) == 1 and "as 'One,'" in caplog.text and "tokenizer words" in caplog.text


def test_a_gap_is_seen() -> None:
    elmo = elmokit.load()
    text = "the ___ of the river"
    assert elmo.predict_next(text) == elmo.predict_next(text, direction="gap")
    assert elmo.predict_next(text.split()) == elmo.predict_next(text.split(), direction="gap")
    assert elmo.predict_next("the end of the") == elmo.predict_next("the end of the", direction="forward")
    assert elmo.config.tokenizer == "words"


@pytest.mark.parametrize("wrong", [None, 5])
def test_what_is_no_list_of_texts_is_named(wrong: object, elmo: Elmo) -> None:
    for call in (elmo.encode, elmo.embed, elmo.tokens):
        with pytest.raises(InputError, match=f"texts: expected a list of texts .*, found {wrong}"):
            list(call(wrong))  # type: ignore[arg-type]
