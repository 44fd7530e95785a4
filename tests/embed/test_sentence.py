"""Embedded sentences: indexing, pooling and their HTML."""

from __future__ import annotations

import numpy as np
import pytest

from elmokit.embed.sentence import EmbeddedSentence
from elmokit.errors import ConfigError, InputError


def test_a_sentence_by_word_and_place() -> None:
    layers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    sentence = EmbeddedSentence(["the", "cat", "the"], layers)
    assert len(sentence) == 3 and EmbeddedSentence([], layers[:, :0])
    np.testing.assert_array_equal(sentence["cat"], sentence.vectors[1])
    np.testing.assert_array_equal(sentence[-1], sentence.vectors[2])
    np.testing.assert_array_equal(sentence[1:], sentence.vectors[1:])
    assert [row.tolist() for row in sentence] == sentence.vectors.tolist()
    assert "cat" in sentence and "dog" not in sentence
    with pytest.raises(InputError, match="'the' stands at 0, 2; choose one"):
        _ = sentence["the"]
    with pytest.raises(InputError, match="found 'dog'; it has the, cat, the"):
        _ = sentence["dog"]
    with pytest.raises(IndexError, match="from 0 to 2, found 3"):
        _ = sentence[3]
    with pytest.raises(TypeError, match="expected a word"):
        _ = sentence[1.5]  # type: ignore[index]


def test_sentence_vectors() -> None:
    vectors = np.array([[1.0, 5.0], [3.0, -1.0], [100.0, 100.0]], dtype=np.float32)
    sentence = EmbeddedSentence(["a", "b2", "..."], vectors[None])
    np.testing.assert_allclose(sentence.vector(), vectors.mean(axis=0))
    np.testing.assert_allclose(sentence.vector("max"), [100, 100])
    np.testing.assert_allclose(sentence.vector("mean", punctuation=False), [2, 2])
    np.testing.assert_allclose(sentence.vector("max", punctuation=False), [3, 5])
    only_marks = EmbeddedSentence(["!"], vectors[None, :1])
    np.testing.assert_allclose(only_marks.vector(punctuation=False), [1, 5])
    empty = EmbeddedSentence([], np.zeros((3, 0, 2), dtype=np.float32))
    assert empty.vector().tolist() == [0, 0] and empty.vector("max").tolist() == [0, 0]
    with pytest.raises(ConfigError, match="mean or max"):
        sentence.vector("median")  # type: ignore[arg-type]
