"""Predictions on held-out text, shown during training."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic
import torch

from elmokit.pretrain.predictions import PREDICTIONS, most_likely, sample
from elmokit.pretrain.training_batch import make_batch
from elmokit.pretrain.training_state import TrainingState


@pytest.fixture
def state(tmp_path: Path) -> TrainingState:
    return synthetic.state(synthetic.write(tmp_path / "train.txt", 20), dropout=0.5, heldout_every=4)


def test_the_words_of_the_highest_probability(state: TrainingState) -> None:
    state.bilm.train()
    found = most_likely(state, ["the", "red"], n=3)
    assert state.bilm.training and found == most_likely(state, ["the", "red"], n=3)  # no dropout
    state.bilm.eval()
    batch = make_batch([["the", "red"]], state.vocabulary, state.characters)
    output = state.bilm(state.bilm.token_encoder(batch.characters, batch.word_ids), batch.left, batch.packing)
    scores = state.head.log_probabilities(output.forward[-1][-1:])[0]  # after "red", not after the end mark
    assert found == [state.vocabulary.words[k] for k in torch.argsort(scores, descending=True)[:3]]
    assert len(most_likely(state, ["the"], n=10**6)) == len(state.vocabulary.words)


def test_sentences_in_rotation(state: TrainingState, tmp_path: Path) -> None:
    heldout = tmp_path / "dev.txt"
    heldout.write_text("the red cat runs\n\nmoss grows\n", encoding="utf-8")
    shown = [sample(state, heldout, step) for step in (0, 4, 8)]
    assert shown[0].startswith("the red ... ") and shown[1].startswith("moss ... ") and shown[2] == shown[0]
    assert shown[0].count(",") == PREDICTIONS - 1


def test_a_heldout_file_without_text(state: TrainingState, tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("\n\n", encoding="utf-8")
    assert sample(state, tmp_path / "dev.txt", 0) == ""
