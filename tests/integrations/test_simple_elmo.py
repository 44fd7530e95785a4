"""The drop-in for simple_elmo."""

from __future__ import annotations

from pathlib import Path

import language_model
import numpy as np
import pytest
from oracle import OracleState
from published_model import Published

from elmokit.errors import ElmoError
from elmokit.integrations.simple_elmo import ElmoModel

TEXTS = [["The", "cat"], ["Ja", "!", "?"], ["a"]]


def expected(model: Published, warmup: bool, batch_size: int) -> list[np.ndarray]:
    """All layers of each sentence, with the state carried as there."""
    states = [OracleState() for _ in range(batch_size)]
    if warmup:
        for state, text in zip(states, TEXTS, strict=False):
            model.embed(text, state)
    return [model.embed(text, states[n % batch_size]) for n, text in enumerate(TEXTS)]


@pytest.mark.parametrize("warmup", [True, False])
def test_vectors(tmp_path: Path, warmup: bool) -> None:
    model, elmo = Published(tmp_path), ElmoModel()
    assert elmo.load(str(tmp_path), max_batch_size=2) == "The model is now loaded."
    assert (elmo.vector_size, elmo.n_layers, elmo.batch_size, elmo.max_chars) == (12, 3, 2, 50)
    layers = expected(model, warmup, 2)
    everything = elmo.get_elmo_vectors(TEXTS, warmup=warmup, layers="all")
    average, top = (elmo.get_elmo_vectors(TEXTS, warmup=warmup, layers=name) for name in ("average", "top"))
    assert everything.shape == (3, 3, 3, 12) and average.shape == top.shape == (3, 3, 12)
    assert average.dtype == np.float64
    for row, (text, wanted) in enumerate(zip(TEXTS, layers, strict=True)):
        np.testing.assert_allclose(everything[row, :, : len(text)], wanted, atol=1e-5)
        np.testing.assert_allclose(average[row, : len(text)], wanted.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(top[row, : len(text)], wanted[2], atol=1e-5)
        assert not everything[row, :, len(text) :].any() and not top[row, len(text) :].any()


def test_sentence_vectors_have_length_one(tmp_path: Path) -> None:
    model, elmo = Published(tmp_path), ElmoModel()
    elmo.load(tmp_path)
    found = elmo.get_elmo_vector_average([*TEXTS, []])
    for vector, layers in zip(found, expected(model, True, 32), strict=False):
        mean = layers.mean(axis=0).mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)
    assert found.shape == (4, 12) and not found[3].any()
    assert elmo.get_elmo_vector_average(TEXTS, layers="all").shape == (3, 3, 12)


def test_substitutes(tmp_path: Path) -> None:
    model = language_model.write(tmp_path)
    elmo = ElmoModel()
    elmo.load(str(tmp_path), full=True)
    ((first, second),) = elmo.get_elmo_substitutes([["the", "cat"]], topn=2)
    assert (first["word"], second["word"]) == ("the", "cat")
    hidden = [0, 1]  # the marks
    after = np.exp(model.log_p(model.read(["<S>", "the"], 0)[-1]))
    before = np.exp(model.log_p(model.read(["</S>"], 1)[-1]))
    for found, probabilities in ((second["forward"], after), (second["backward"], before)):
        order = [k for k in np.argsort(-probabilities) if k not in hidden][:2]
        assert found["candidates"] == order
        assert found["candidate_words"] == [model.words[k] for k in order]
        np.testing.assert_allclose(found["logp"], probabilities[order], atol=1e-4)


def test_substitutes_of_strings_are_those_of_their_words(tmp_path: Path) -> None:
    """The original takes strings of words, separated by white space."""
    language_model.write(tmp_path)
    elmo = ElmoModel()
    elmo.load(str(tmp_path), full=True)
    found = elmo.get_elmo_substitutes(["the cat  sat", ["the", "cat"]], topn=2)
    assert [[place["word"] for place in sentence] for sentence in found] == [["the", "cat", "sat"], ["the", "cat"]]
    assert found[0] == elmo.get_elmo_substitutes([["the", "cat", "sat"]], topn=2)[0]


def test_substitutes_of_the_whole_vocabulary(tmp_path: Path) -> None:
    model = language_model.write(tmp_path)
    elmo = ElmoModel()
    assert elmo.vocab is None
    elmo.load(str(tmp_path), full=True)
    vocab = elmo.vocab
    assert vocab is not None and vocab.size == len(model.words)
    assert (vocab.bos, vocab.eos, vocab.unk) == (0, 1, 2)
    assert vocab.id_to_word(vocab.word_to_id("cat")) == "cat" and vocab.word_to_id("unseen") == vocab.unk
    ((place,),) = elmo.get_elmo_substitutes(["cat"], topn=vocab.size)
    for side in (place["forward"], place["backward"]):
        assert sorted(side["candidates"]) == list(range(vocab.size))
        assert side["candidate_words"][-2:] == ["<S>", "</S>"] and side["logp"][-2:] == [0, 0]  # as in the original
    ((place,),) = elmo.get_elmo_substitutes(["cat"], topn=vocab.size, nodelimiters=False)
    assert len(place["forward"]["candidates"]) == vocab.size and min(place["forward"]["logp"]) > 0


def test_top_layer_chosen_while_loading(tmp_path: Path) -> None:
    """Early versions: `load(directory, top=True)`."""
    Published(tmp_path)
    elmo = ElmoModel()
    elmo.load(tmp_path, top=True)
    np.testing.assert_array_equal(elmo.get_elmo_vectors(TEXTS), elmo.get_elmo_vectors(TEXTS, layers="top"))
    np.testing.assert_array_equal(
        elmo.get_elmo_vector_average(TEXTS), elmo.get_elmo_vector_average(TEXTS, layers="top")
    )
    elmo.load(tmp_path, top=False)
    average = elmo.get_elmo_vectors(TEXTS, layers="average")
    np.testing.assert_array_equal(elmo.get_elmo_vectors(TEXTS), average)
    with pytest.raises(ElmoError, match="pass top by name"):
        elmo.load(tmp_path, True)


def test_errors(tmp_path: Path) -> None:
    Published(tmp_path)
    elmo = ElmoModel()
    with pytest.raises(ElmoError, match="call load first"):
        elmo.get_elmo_vectors(TEXTS)
    elmo.load(tmp_path)
    with pytest.raises(ElmoError, match="average, top, all"):
        elmo.get_elmo_vectors(TEXTS, layers="middle")  # type: ignore[arg-type]
    with pytest.raises(ElmoError):
        ElmoModel().load(tmp_path, full=True)  # without a softmax
