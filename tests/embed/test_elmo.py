"""What a user can ask of Elmo, and what it answers to requests that cannot be met."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import models
import numpy as np
import pytest
import torch

from elmokit import Elmo
from elmokit.errors import ConfigError, ElmoError, InputError

TEXT = [["The", "cat", "sat", "."], [], ["present"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.write_variant(tmp_path_factory.mktemp("model"), "usual")[0]


@pytest.fixture(scope="module")
def elmo(folder: Path) -> Elmo:
    return Elmo.from_pretrained(folder, state="reset")


def test_choice_of_layers(elmo: Elmo) -> None:
    every = [sentence.layers for sentence in elmo.embed(TEXT)]
    for choice, pick in {
        "top": lambda x: x[2],
        "average": lambda x: x.mean(axis=0),
        0: lambda x: x[0],
        1: lambda x: x[1],
        (0.5, -2.0, 1.0): lambda x: 0.5 * x[0] - 2 * x[1] + x[2],
    }.items():
        for sentence, layers in zip(elmo.embed(TEXT, layers=choice), every, strict=True):
            assert sentence.layers.shape == (1, *layers.shape[1:])
            np.testing.assert_allclose(sentence.vectors, pick(layers), atol=1e-6)
    first = next(elmo.embed(TEXT))
    np.testing.assert_allclose(first.vectors, first.layers.mean(axis=0), atol=1e-7)
    for same, choice in ((np.int64(1), 1), (np.array([0.5, -2, 1]), (0.5, -2.0, 1.0)), (torch.ones(3), [1, 1, 1])):
        ours, theirs = (next(elmo.embed(TEXT, layers=layers)).vectors for layers in (same, choice))  # type: ignore[arg-type]
        np.testing.assert_array_equal(ours, theirs)


def test_raw_text_keeps_its_offsets(elmo: Elmo) -> None:
    (sentence,) = elmo.embed(["I don’t know."])
    assert sentence.tokens == ["I", "do", "n't", "know", "."]
    assert sentence.text == "I don’t know." and sentence.offsets is not None
    assert [sentence.text[a:b] for a, b in sentence.offsets] == ["I", "do", "n’t", "know", "."]
    (spaced,) = elmo.embed(["I don’t know."], tokenizer="spaces")
    assert spaced.tokens == ["I", "don’t", "know."]
    (own,) = elmo.embed(["a-b"], tokenizer=lambda text: text.split("-"))
    assert own.tokens == ["a", "b"] and own.offsets is None
    (listed,) = elmo.embed([("A", "tuple")])
    assert listed.tokens == ["A", "tuple"] and listed.text is None


def test_half_precision_and_eight_bits(folder: Path, elmo: Elmo) -> None:
    exact = [sentence.layers for sentence in elmo.embed(TEXT)]
    for sentence, layers in zip(
        Elmo.from_pretrained(folder, state="reset", dtype="float16").embed(TEXT), exact, strict=True
    ):
        assert sentence.layers.dtype == np.float16
        np.testing.assert_allclose(sentence.layers, layers, rtol=1e-3, atol=1e-3)
    for sentence, layers in zip(
        Elmo.from_pretrained(folder, state="reset", dtype="int8").embed(TEXT), exact, strict=True
    ):
        assert sentence.layers.dtype == np.float32
        np.testing.assert_array_equal(sentence.layers[0], layers[0])  # a word's own vector stays exact
        if len(sentence.tokens):
            error = np.linalg.norm(sentence.layers[1:] - layers[1:]) / np.linalg.norm(layers[1:])
            assert 0 < error < 0.05


def test_vectors_too_large_for_half_precision(tmp_path: Path) -> None:
    options, weights = models.oracle.random_model(np.random.default_rng(0))
    weights["CNN_proj/W_proj"] *= 1e6
    elmo = Elmo.from_pretrained(models.write(tmp_path, options, weights), state="reset", dtype="float16")
    with pytest.raises(ConfigError, match=r"float16: expected vectors below 65504, found \d.*; use float32"):
        list(elmo.embed(TEXT))


def test_saving_gives_the_same_model(folder: Path, elmo: Elmo, tmp_path: Path) -> None:
    elmo.save_pretrained(tmp_path / "native")  # its weights are packed by then
    again = Elmo.from_pretrained(tmp_path / "native", state="reset")
    assert again.model.fingerprint == elmo.model.fingerprint
    for ours, theirs in zip(again.embed(TEXT), Elmo.from_pretrained(folder, state="reset").embed(TEXT), strict=True):
        np.testing.assert_array_equal(ours.layers, theirs.layers)
    with pytest.raises(ConfigError, match="float32"):
        Elmo.from_pretrained(folder, dtype="int8").save_pretrained(tmp_path / "coarse")
    assert not (tmp_path / "coarse").exists()


def test_sentences_stream(elmo: Elmo) -> None:
    """An endless corpus gives its first vectors at once, and is read no further than a window."""
    read = itertools.count()

    def endless() -> Iterator[list[str]]:
        while True:
            next(read)
            yield ["the", "cat"] * 5

    results = elmo.embed(endless(), batch_tokens=200)
    assert next(results).tokens == ["the", "cat"] * 5
    assert next(read) < 200


def test_a_token_of_ten_megabytes(elmo: Elmo) -> None:
    long, short = (sentence.layers for sentence in elmo.embed([["x" * 10_000_000], ["x" * 48]]))
    np.testing.assert_allclose(long, short, atol=1e-6)  # 50 characters count, the marks included


def test_a_sentence_of_100_000_tokens(tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(models.write_variant(tmp_path, "one layer")[0], state="reset")
    long, start = elmo.embed([["the", "cat", "sat"] * 33_334, ["the", "cat", "sat"]])
    assert long.layers.shape == (2, 100_002, 12)
    np.testing.assert_allclose(long.layers[:, 0, :6], start.layers[:, 0, :6], atol=1e-5)  # forward half


def test_lone_surrogates_and_empty_tokens(elmo: Elmo) -> None:
    lone, empty = (sentence.layers for sentence in elmo.embed([["\ud800"], [""]]))
    np.testing.assert_allclose(lone, empty, atol=1e-6)


def test_nothing_to_do(elmo: Elmo) -> None:
    assert list(elmo.embed([])) == []
    assert [sentence.layers.shape for sentence in elmo.embed(["", "  ", []])] == [(3, 0, 12)] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "bottom"}, "all, top, average, a number or weights, found 'bottom'"),
        ({"layers": 3}, "this model has 0 to 2, found 3"),
        ({"layers": -1}, "this model has 0 to 2"),
        ({"layers": (1.0, 2.0)}, "expected 3 weights, one per layer, found 2"),
        ({"layers": (1.0, 2.0, float("nan"))}, "layers: expected finite weights"),
        ({"layers": 1.5}, "a number or weights, found 1.5"),
        ({"layers": "123"}, "a number or weights, found '123'"),
        ({"layers": ["a", "b", "c"]}, "a number or weights"),
        ({"batch_size": "3"}, "batch_size: expected a positive integer, found '3'"),
        ({"batch_tokens": 1.5}, "batch_tokens: expected a positive integer, found 1.5"),
        ({"batch_size": 0}, "batch_size: expected a positive integer, found 0"),
        ({"batch_tokens": -1}, "batch_tokens"),
        ({"threads": 0}, "threads"),
        ({"tokenizer": "word"}, "words, han, spaces"),
    ],
)
def test_options_that_cannot_be_met(elmo: Elmo, options: dict[str, object], message: str) -> None:
    with pytest.raises(ElmoError, match=message):  # at the call, not at the first result
        elmo.embed(TEXT, **options)  # type: ignore[arg-type]


def test_input_that_is_no_sentence(elmo: Elmo) -> None:
    with pytest.raises(InputError, match=r"expected a loaded model, found 'base'; use Elmo.from_pretrained"):
        Elmo("base")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"use \[text\]"):
        elmo.embed("I will buy you a present .")
    with pytest.raises(InputError, match="sentence 1: expected text or a list of tokens, found '5'"):
        list(elmo.embed([["fine"], 5]))  # type: ignore[list-item]
    with pytest.raises(InputError, match="sentence 0"):
        list(elmo.embed([[["nested"]]]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "cold"}, "state: expected reset, warm, carry, found 'cold'"),
        ({"dtype": "float8"}, "dtype: expected float32, float16, int8, found 'float8'"),
        ({"device": "abacus"}, "device: expected cpu, cuda"),
    ],
)
def test_models_that_cannot_be_had(folder: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Elmo.from_pretrained(folder, **options)  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu(folder: Path, elmo: Elmo) -> None:
    for ours, theirs in zip(
        Elmo.from_pretrained(folder, state="reset", device="cuda").embed(TEXT), elmo.embed(TEXT), strict=True
    ):
        np.testing.assert_allclose(ours.layers, theirs.layers, atol=1e-4)


FLAT = """
    import sys
    from elmokit import Elmo
    elmo = Elmo.from_pretrained(sys.argv[1], state="reset")
    peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024  # of this process alone
    def lines(n):
        for k in range(n):
            yield [f"w{k % 997}", f"x{k % int(sys.argv[3])}", "the", "cat"] * 2
    for k, sentence in enumerate(elmo.embed(lines(int(sys.argv[2]))), start=1):
        if k == int(sys.argv[2]) // 2:
            half = peak()
    print(k, half, peak())
"""


def memory_growth(folder: Path, n_sentences: int, n_words: int) -> float:
    """MB by which the peak grows over the second half of a corpus, when words or the cache have been used up."""
    command = [sys.executable, "-c", textwrap.dedent(FLAT), str(folder), str(n_sentences), str(n_words)]
    done, half, end = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(done) == n_sentences
    return float(end) - float(half)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
def test_memory_is_flat(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the window is as many tokens as fit into a number of bytes: a larger model fills it with fewer sentences
    wide = models.write(
        folder.parent / "wide", *models.oracle.random_model(np.random.default_rng(0), dim=512, projection_dim=512)
    )
    assert memory_growth(wide, 6_000, 1_000) < 60  # results that stayed would be 300


@pytest.mark.slow
def test_memory_is_flat_over_a_million_sentences(folder: Path) -> None:
    assert memory_growth(folder, 1_000_000, 1_000_000) < 50
