"""Misspelled words and noisy sentences."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from elmokit.text.noise import CAPITALS, LOWER_CASE, misspell, misspell_some, noisy_sentence


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


def test_noisy_sentences_have_the_same_number_of_words_and_some_are_in_one_case() -> None:
    rng = random.Random(3)
    tokens = ["Ada", "Lovelace", "lived", "in", "London", "."]
    noisy = [noisy_sentence(tokens, 0.0, rng) for _ in range(4000)]
    assert all(len(sentence) == len(tokens) for sentence in noisy)
    lower = sum(sentence == [token.lower() for token in tokens] for sentence in noisy) / len(noisy)
    upper = sum(sentence == [token.upper() for token in tokens] for sentence in noisy) / len(noisy)
    same = sum(sentence == tokens for sentence in noisy) / len(noisy)
    assert abs(lower - LOWER_CASE) < 0.03 and abs(upper - CAPITALS) < 0.02 and abs(lower + upper + same - 1) < 1e-9
    assert noisy_sentence(tokens, 1.0, random.Random(1)) != tokens
