"""Cache of word vectors: capacity, order of eviction, interruptions."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit import Elmo
from elmokit.embed.word_cache import WordCache


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.write_variant(tmp_path_factory.mktemp("model"), "usual")[0]


@pytest.fixture(scope="module")
def elmo(folder: Path) -> Elmo:
    return Elmo.from_pretrained(folder, state="reset")


def test_very_long_words_are_not_kept(elmo: Elmo) -> None:
    """A cache counts words; of blobs without a space in them, as many would be gigabytes."""
    list(elmo.embed([["other"]]))  # the marks around a sentence are kept, too
    before = len(elmo._engine.cache)
    first = [sentence.layers for sentence in elmo.embed([["x" * 1000, "usual"], ["y" * 1000]])]
    assert len(elmo._engine.cache) == before + 1
    for again, layers in zip(elmo.embed([["x" * 1000, "usual"], ["y" * 1000]]), first, strict=True):
        np.testing.assert_allclose(again.layers, layers, atol=1e-6)


word_lists = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=6, unique=True)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=6, unique=True), max_size=20),
    st.integers(0, 5),
)
def test_vectors_are_right_whatever_the_capacity(requests: list[list[str]], capacity: int) -> None:
    encoded: list[str] = []

    def encode(words: list[str]) -> torch.Tensor:
        encoded.extend(words)
        return torch.tensor([[float(ord(word)), 1.0] for word in words])

    cache = WordCache(encode=encode, capacity=capacity)
    for words in requests:
        assert cache.vectors(words)[:, 0].tolist() == [ord(word) for word in words]
        assert len(cache) <= capacity
    if capacity == 5 and len({word for words in requests for word in words}) <= 5:
        assert len(encoded) == len(set(encoded))  # each word once


def test_the_least_recently_used_word_goes_first() -> None:
    encoded: list[str] = []

    def encode(words: list[str]) -> torch.Tensor:
        encoded.extend(words)
        return torch.zeros(len(words), 1)

    cache = WordCache(encode=encode, capacity=2)
    for word in ("a", "b", "a", "c", "a", "b"):
        cache.vectors([word])
    assert encoded == ["a", "b", "c", "b"]


def test_an_interrupted_request_leaves_an_empty_cache() -> None:
    def encode(words: list[str]) -> torch.Tensor:
        if "stop" in words:
            raise KeyboardInterrupt
        return torch.ones(len(words), 1)

    cache = WordCache(encode=encode, capacity=3)
    cache.vectors(["a", "b"])
    with pytest.raises(KeyboardInterrupt):
        cache.vectors(["a", "stop"])
    assert len(cache) == 0 and cache.vectors(["a", "b"]).tolist() == [[1.0], [1.0]]
