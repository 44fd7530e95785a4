"""Predicted words against the oracle, from either side and from both."""

from __future__ import annotations

import language_model
import numpy as np
import pytest

from elmokit import Elmo, weights
from elmokit.embed.predict import predict_next
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, InputError
from elmokit.weights.model import Model

WORDS = language_model.WORDS


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> language_model.SmallModel:
    return language_model.write(tmp_path_factory.mktemp("small"))


@pytest.fixture
def model(small: language_model.SmallModel) -> Model:
    return weights.load(small.folder)


def check(predictions: list, p: np.ndarray, hidden: set[str], top: int = 10) -> None:
    """Words in the order of p, without hidden ones."""
    order = [k for k in np.argsort(-p) if WORDS[k] not in hidden][:top]
    assert [prediction.word for prediction in predictions] == [WORDS[k] for k in order]
    np.testing.assert_allclose([prediction.probability for prediction in predictions], p[order], rtol=1e-4)


@pytest.mark.parametrize("tokens", [[], ["the"], ["a", "dog", "sat", "on", "the", "dog"]])
@pytest.mark.parametrize("dtype", ["float32", "int8", None], ids=["packed", "8 bits", "as loaded"])
def test_both_directions(small: language_model.SmallModel, model: Model, tokens: list[str], dtype: str | None) -> None:
    if dtype:
        Elmo(model, dtype=dtype)  # type: ignore[arg-type]
    reader = WordReader(model)
    after = predict_next(model, reader, tokens)
    before = predict_next(model, reader, tokens, direction="backward", top=3)
    if dtype == "int8":
        assert len(after) == 10 and len(before) == 3
        return
    check(after, np.exp(small.log_p(small.read(["<S>", *tokens], 0)[-1])), {"<UNK>"})
    check(before, np.exp(small.log_p(small.read(["</S>", *tokens[::-1]], 1)[-1])), {"<UNK>"}, top=3)


@pytest.mark.parametrize(("left", "right"), [(["the"], ["sat", "."]), ([], ["dog"]), (["the", "dog"], []), ([], [])])
def test_a_gap_is_filled_from_both_sides(
    small: language_model.SmallModel, model: Model, left: list[str], right: list[str]
) -> None:
    p = np.exp(small.log_p(small.read(["<S>", *left], 0)[-1]) + small.log_p(small.read(["</S>", *right[::-1]], 1)[-1]))
    hidden = {"<S>", "</S>", "<UNK>"}
    p /= sum(p[k] for k, word in enumerate(WORDS) if word not in hidden)
    predictions = predict_next(model, WordReader(model), [*left, "___", *right], direction="gap", top=100)
    check(predictions, p, hidden, top=100)
    assert sum(prediction.probability for prediction in predictions) == pytest.approx(1)
    text = " ".join([*left, "[?]", *right])
    assert predict_next(model, WordReader(model), text, direction="gap", gap="[?]", top=100) == predictions
    longer = [*left, "_____", *right]
    assert predict_next(model, WordReader(model), longer, top=100) == predictions
    assert predict_next(model, WordReader(model), " ".join(longer), top=100) == predictions


def test_text_is_tokenized(model: Model) -> None:
    reader = WordReader(model)
    expected = predict_next(model, reader, ["The", "cat", "'s", "mat"])
    assert predict_next(model, reader, "The cat's mat") == expected
    assert predict_next(model, reader, "The cat 's mat", tokenizer="spaces") == expected
    assert predict_next(model, reader, "The cat's mat", tokenizer="spaces") != expected


def test_excluded_words(model: Model) -> None:
    everything = predict_next(model, WordReader(model), ["the"], exclude=(), top=100)
    assert sum(prediction.probability for prediction in everything) == pytest.approx(1)
    assert {prediction.word for prediction in everything} == set(WORDS)
    some = predict_next(model, WordReader(model), ["the"], exclude={"</S>", "cat"}, top=100)
    assert some == [prediction for prediction in everything if prediction.word not in ("</S>", "cat")]


def test_bad_arguments(model: Model) -> None:
    reader = WordReader(model)
    with pytest.raises(ConfigError, match="direction: expected forward, backward, gap, found 'up'"):
        predict_next(model, reader, "the", direction="up")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="top: expected 1 word or more, found 0"):
        predict_next(model, reader, "the", top=0)
    for text, found in (("the cat", 0), ("the ___ ___", 2), (["the"], 0)):
        with pytest.raises(InputError, match=f"gap: expected one '___' in the text, found {found}"):
            predict_next(model, reader, text, direction="gap")
    with pytest.raises(InputError, match="found no mark"):
        predict_next(model, reader, "the", direction="gap", gap="")


def test_models_that_cannot_predict(model: Model) -> None:
    softmax, model.read_softmax = model.read_softmax, None
    with pytest.raises(ConfigError, match="fit one with elmo finetune"):
        predict_next(model, WordReader(model), "the")
    model.read_softmax, model.vocabulary = softmax, None
    with pytest.raises(ConfigError, match=r"put vocabulary\.txt beside"):
        predict_next(model, WordReader(model), "the")


def test_elmo_predicts(small: language_model.SmallModel, model: Model) -> None:
    elmo = Elmo.from_pretrained(small.folder)
    for direction, text in (("forward", "the cat"), ("backward", "the mat ."), ("gap", "the ___ sat")):
        ours = elmo.predict_next(text, direction=direction, top=3)  # type: ignore[arg-type]
        theirs = predict_next(model, WordReader(model), text, direction=direction, top=3)  # type: ignore[arg-type]
        assert [p.word for p in ours] == [p.word for p in theirs]
        np.testing.assert_allclose([p.probability for p in ours], [p.probability for p in theirs], rtol=1e-4)
