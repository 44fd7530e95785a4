"""Bidirectional language-model loss, against sums over one sentence at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic
import torch

from elmokit.pretrain.loss import Loss, bilm_loss
from elmokit.pretrain.training_batch import make_batch
from elmokit.pretrain.training_state import TrainingState

SENTENCES = [["the", "red", "cat", "runs"], ["moss"], ["the", "unheard-of", "fern", "grows", "now", "."]]


@pytest.fixture
def state(tmp_path: Path) -> TrainingState:
    state = synthetic.state(synthetic.write(tmp_path / "train.txt", 20), loss="full", dropout=0.0)
    state.bilm.eval()
    return state


def loss_of(state: TrainingState, sentences: list[list[str]], **options: object) -> Loss:
    batch = make_batch(sentences, state.vocabulary, state.characters)
    return bilm_loss(state.bilm, state.head, batch, **options)  # type: ignore[arg-type]


def test_a_batch_is_the_sum_of_its_sentences(state: TrainingState) -> None:
    whole = loss_of(state, SENTENCES)
    parts = [loss_of(state, [sentence]) for sentence in SENTENCES]
    assert whole.n_tokens == sum(part.n_tokens for part in parts) == sum(len(s) + 1 for s in SENTENCES)
    torch.testing.assert_close(whole.forward, torch.stack([part.forward for part in parts]).sum())
    torch.testing.assert_close(whole.backward, torch.stack([part.backward for part in parts]).sum())
    torch.testing.assert_close(whole.mean(), (whole.forward + whole.backward) / (2 * whole.n_tokens))


def test_a_sentence_by_hand(state: TrainingState) -> None:
    """Forward: words and the end mark, given the words before; backward: words and the start mark."""
    words = SENTENCES[0]
    batch = make_batch([words], state.vocabulary, state.characters)
    encoded = state.bilm.token_encoder(batch.characters, batch.word_ids)
    output = state.bilm(encoded, batch.left, batch.packing, backward_index=batch.right)
    log_forward = state.head.log_probabilities(output.forward[-1])  # (n + 1, V)
    log_backward = state.head.log_probabilities(output.backward[-1])
    ids = [state.vocabulary.words.index(word) for word in words]
    start, end = (state.vocabulary.words.index(mark) for mark in ("<S>", "</S>"))
    loss = loss_of(state, [words])
    rows = range(len(words) + 1)
    torch.testing.assert_close(
        loss.forward, -sum(log_forward[k, word] for k, word in zip(rows, [*ids, end], strict=True))
    )
    torch.testing.assert_close(
        loss.backward, -sum(log_backward[k, word] for k, word in zip(rows, [start, *ids], strict=True))
    )


def test_a_sampled_softmax_follows_its_generator(state: TrainingState) -> None:
    seeds = (1, 1, 2)
    losses = [loss_of(state, SENTENCES, n_samples=5, generator=torch.Generator().manual_seed(s)).mean() for s in seeds]
    assert losses[0] == losses[1] != losses[2]
