"""Character noise on the input of training."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import synthetic
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.loop import train
from elmokit.pretrain.noise import misspell, misspell_some
from elmokit.pretrain.training_batch import make_batch
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.text.characters import ByteCharacters
from elmokit.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "river", "bank", "the"])


@given(st.text(min_size=1, max_size=12), st.integers(0, 2**32))
def test_a_misspelled_word_is_still_a_word_and_follows_from_its_seed(word: str, seed: int) -> None:
    changed = misspell(word, random.Random(seed))
    assert changed == misspell(word, random.Random(seed))
    assert changed
    assert len(changed) <= 3 * len(word) + 2  # a change of case may lengthen: ß is SS
    if len(word) < 2 or not any(character.isalpha() for character in word):
        assert changed == word


def test_about_the_share_that_was_asked_for_is_misspelled() -> None:
    words = ["government"] * 20_000
    changed = misspell_some(words, 0.1, random.Random(1))
    share = sum(a != b for a, b in zip(words, changed, strict=True)) / len(words)
    assert 0.085 < share < 0.105  # a swap of equal letters changes nothing
    assert misspell_some(words, 0.0, random.Random(1)) == words


def test_every_kind_of_edit_occurs() -> None:
    found = {misspell("Paris", random.Random(seed)) for seed in range(400)}
    assert {"Pairs", "Pris", "Pariis", "PARIS", "paris"} <= found
    assert any(len(word) == 6 and word not in ("Pariis", "Parris", "Paaris", "PParis", "Pariss") for word in found)


def test_what_is_read_is_misspelled_and_what_is_predicted_is_not() -> None:
    sentence = ["the", "river", "bank"]
    clean = make_batch([sentence], VOCABULARY, ByteCharacters(12))
    noisy = make_batch(
        [sentence],
        VOCABULARY,
        ByteCharacters(12),
        misspell=lambda tokens: [token.replace("v", "vv") for token in tokens],
    )
    assert noisy.characters is not None and clean.characters is not None
    # the targets of both directions are those of the clean batch
    assert torch.equal(noisy.word_ids[noisy.right], clean.word_ids[clean.right])
    assert torch.equal(noisy.word_ids[noisy.left], clean.word_ids[clean.left])
    # one word is spelt otherwise, the marks and the others are not
    differs = (noisy.characters[noisy.left] != clean.characters[clean.left]).any(dim=1)
    assert differs.tolist() == [False, False, True, False]
    expected = torch.from_numpy(ByteCharacters(12).encode(["rivver"]))[0]
    assert torch.equal(noisy.characters[noisy.left][2], expected)


def test_a_word_both_clean_and_misspelled_has_two_rows() -> None:
    spellings = iter((["bank", "bnak"],))
    batch = make_batch([["bank", "bank"]], VOCABULARY, ByteCharacters(12), misspell=lambda _: next(spellings))
    assert batch.word_ids.tolist() == [0, 1, 4, 4]


def test_a_run_with_noise_can_be_repeated_and_differs_from_one_without(tmp_path: Path) -> None:
    text = synthetic.write(tmp_path / "train.txt", 60)
    losses = {
        noise: [
            [step.loss for step, _ in zip(train(state, Corpus(str(text))), range(4), strict=False)]
            for state in (synthetic.state(text, noise=noise, steps=4, epochs=None) for _ in range(2))
        ]
        for noise in (0.0, 0.5)
    }
    assert losses[0.5][0] == losses[0.5][1]
    assert losses[0.5][0] != losses[0.0][0]


def test_noise_is_a_share() -> None:
    with pytest.raises(ConfigError, match=r"noise: expected less than 1, found 1\.5"):
        TrainingSettings(noise=1.5)
