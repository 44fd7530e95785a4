"""Perplexity against a slow loop over the oracle's outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import language_model
import numpy as np
import oracle
import pytest
import torch

from elmokit import weights
from elmokit.errors import ConfigError, InputError
from elmokit.nn.softmax import AdaptiveHead, assemble_head
from elmokit.pretrain.perplexity import Perplexity, perplexity

WORDS = language_model.WORDS
LINES = [
    "the cat sat on the mat .",
    "",
    "the",
    "a dog sat",
    "  ",
    "stick to the cat , the cat , the cat .",
    "to the cat",
]
SENTENCES = [line.split() for line in LINES if line.split()]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> language_model.SmallModel:
    return language_model.write(tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("variant", ["usual", "one layer", "no skip connections", "words"])
@pytest.mark.parametrize("batch_tokens", [1, 12, 4096])
def test_sentences_from_zero(variant: str, batch_tokens: int, tmp_path: Path) -> None:
    words = language_model.WORDS[:9] if variant == "words" else language_model.WORDS
    small = language_model.write(tmp_path / "model", variant, words)
    expected = [np.exp(np.mean([p for s in SENTENCES for p in small.losses(s, direction)])) for direction in (0, 1)]
    result = perplexity(weights.load(small.folder), LINES, batch_tokens=batch_tokens)
    assert [result.forward, result.backward] == pytest.approx(expected, rel=1e-5)
    assert (result.sentences, result.tokens) == (5, sum(len(s) + 1 for s in SENTENCES))
    assert result.unknown == sum(word not in words for s in SENTENCES for word in s)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 256])
def test_carried_states_as_published(small: language_model.SmallModel, n_rows: int) -> None:
    """Step by step as the published reader: at each step, a row that has nothing left takes the next sentence."""
    waiting = list(SENTENCES) * 2
    left: list[int] = [0] * n_rows
    states = [oracle.OracleState() for _ in range(n_rows)]
    losses: tuple[list[float], list[float]] = ([], [])
    while waiting:
        for row in range(n_rows):
            if left[row] == 0 and waiting:
                sentence = waiting.pop(0)
                left[row] = len(sentence) + 1
                for direction in (0, 1):
                    losses[direction].extend(small.losses(sentence, direction, states[row]))
            left[row] -= 1
    result = perplexity(weights.load(small.folder), LINES * 2, state="carry", rows=n_rows)
    assert [result.forward, result.backward] == pytest.approx([np.exp(np.mean(part)) for part in losses], rel=1e-4)
    assert result.geometric_mean == pytest.approx(np.exp(np.mean(losses)), rel=1e-4)


def test_means() -> None:
    result = Perplexity(forward=4, backward=9, tokens=12, sentences=2, unknown=1)
    assert (result.mean, result.geometric_mean, result.out_of_vocabulary) == (6.5, 6, 0.1)


def test_a_uniform_model_is_as_perplexed_as_its_vocabulary_is_large(small: language_model.SmallModel) -> None:
    model = weights.load(small.folder)
    model.read_softmax = lambda: assemble_head({"weight": torch.zeros(13, 6), "bias": torch.zeros(13)})
    result = perplexity(model, iter(LINES))
    assert result.mean == pytest.approx(13) == result.geometric_mean


def test_tokens_and_tokenizers(small: language_model.SmallModel) -> None:
    model = weights.load(small.folder)
    expected = perplexity(model, [["the", "cat", "sat", "."]])
    assert perplexity(model, ["the cat sat."], tokenizer="words") == expected
    assert perplexity(model, ["the cat sat."]) != expected


def test_training_goes_on_as_before(small: language_model.SmallModel) -> None:
    model = weights.load(small.folder)
    expected = perplexity(model, LINES)
    model.bilm.train()
    model.bilm.dropout = 0.5
    assert perplexity(model, LINES) == expected and model.bilm.training


def test_a_softmax_in_tiers(small: language_model.SmallModel) -> None:
    torch.manual_seed(0)
    head = AdaptiveHead(n_words=13, dim=6)
    model = weights.load(small.folder)
    model.read_softmax = lambda: head
    losses = []
    for sentence in SENTENCES:
        ids = [WORDS.index(word) if word in WORDS else 2 for word in (*sentence, "</S>")]
        x = torch.tensor(np.array(small.read(["<S>", *sentence], 0)), dtype=torch.float32)
        losses += [-row[word].item() for row, word in zip(head.log_probabilities(x), ids, strict=True)]
    assert perplexity(model, LINES).forward == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)


def test_progress(small: language_model.SmallModel) -> None:
    seen: list[tuple[int, int]] = []
    result = perplexity(weights.load(small.folder), LINES, batch_tokens=10, progress=lambda *done: seen.append(done))
    assert len(seen) > 1 and seen == sorted(seen) and seen[-1] == (result.sentences, result.tokens)


def test_models_that_cannot_predict(small: language_model.SmallModel) -> None:
    model = weights.load(small.folder)
    softmax, words = model.read_softmax, model.vocabulary
    model.read_softmax = None
    with pytest.raises(ConfigError, match="fit one with elmo finetune"):
        perplexity(model, LINES)
    model.read_softmax, model.vocabulary = softmax, None
    with pytest.raises(ConfigError, match=r"put vocabulary\.txt beside"):
        perplexity(model, LINES)
    model.vocabulary = tuple(word.lower() for word in words or ())
    with pytest.raises(ConfigError, match="expected the words <S> </S> <UNK>, found no <S>"):
        perplexity(model, LINES)


def test_bad_input(small: language_model.SmallModel) -> None:
    model = weights.load(small.folder)
    with pytest.raises(InputError, match="expected at least one sentence"):
        perplexity(model, ["", " "])
    with pytest.raises(ConfigError, match="expected state reset or carry"):
        perplexity(model, LINES, state="warm")  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [("the", "cat", "."), (), WORDS])
@pytest.mark.parametrize("state", ["reset", "carry"])
def test_a_smaller_vocabulary_merges_the_other_words_into_the_unknown_one(
    small: language_model.SmallModel, kept: tuple[str, ...], state: Literal["reset", "carry"]
) -> None:
    """By the slow way: log of the sum of p over all words that count as unknown."""
    merged = [i for i, word in enumerate(WORDS) if word == "<UNK>" or word not in (*kept, "<S>", "</S>")]
    expected = []
    for direction in (0, 1):
        losses = []
        carried = oracle.OracleState() if state == "carry" else None
        for sentence in SENTENCES:
            marked = ["<S>", *sentence, "</S>"][:: 1 if direction == 0 else -1]
            for x, word in zip(small.read(marked[:-1], direction, carried), marked[1:], strict=True):
                p = np.exp(small.log_p(x))
                is_kept = word in (*kept, "<S>", "</S>") and word in WORDS
                losses.append(-np.log(p[WORDS.index(word)] if is_kept else p[merged].sum()))
        expected.append(np.exp(np.mean(losses)))
    result = perplexity(weights.load(small.folder), LINES, words=kept, state=state, rows=1)
    assert [result.forward, result.backward] == pytest.approx(expected, rel=1e-5)
    assert result.unknown == sum(word not in kept or word not in WORDS for s in SENTENCES for word in s)
