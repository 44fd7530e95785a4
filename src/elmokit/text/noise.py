"""Character noise: misspelled training inputs, which make the model robust to typing errors."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

SECOND_EDIT = 0.25  # probability of a second edit in a misspelled word
LOWER_CASE, CAPITALS = 0.25, 0.05  # shares of noisy sentences
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def misspell_some(tokens: Sequence[str], share: float, rng: random.Random) -> list[str]:
    """Misspell tokens with probability `share`: swap, drop, insert or repeat letters, or change case."""
    return [misspell(token, rng) if rng.random() < share else token for token in tokens]


def noisy_sentence(tokens: Sequence[str], share: float, rng: random.Random) -> list[str]:
    """A sentence as people type it: some in lower case, a few in capitals, with misspelled words."""
    chance = rng.random()
    if chance < LOWER_CASE:
        tokens = [token.lower() for token in tokens]
    elif chance < LOWER_CASE + CAPITALS:
        tokens = [token.upper() for token in tokens]
    return misspell_some(tokens, share, rng)


def misspell(word: str, rng: random.Random) -> str:
    """Make one typing error, sometimes two. Words without letters and single characters stay unchanged."""
    if len(word) < 2 or not any(character.isalpha() for character in word):
        return word
    for _ in range(2 if rng.random() < SECOND_EDIT else 1):
        word = rng.choice(_EDITS)(word, rng)
    return word


def _swap(word: str, rng: random.Random) -> str:
    i = rng.randrange(len(word) - 1) if len(word) > 1 else 0
    return word[:i] + word[i : i + 2][::-1] + word[i + 2 :]


def _drop(word: str, rng: random.Random) -> str:
    i = rng.randrange(len(word))
    return (word[:i] + word[i + 1 :]) or word


def _insert(word: str, rng: random.Random) -> str:
    i = rng.randrange(len(word) + 1)
    # for non-ASCII words insert one of their own letters, so that the script stays the same
    letters = _LETTERS if word.isascii() else "".join(c for c in word if c.isalpha()) or _LETTERS
    return word[:i] + rng.choice(letters) + word[i:]


def _repeat(word: str, rng: random.Random) -> str:
    i = rng.randrange(len(word))
    return word[: i + 1] + word[i:]


def _change_case(word: str, rng: random.Random) -> str:
    changed = rng.choice((str.lower, str.upper, str.capitalize))(word)
    return changed if changed != word else word.swapcase()


_EDITS: tuple[Callable[[str, random.Random], str], ...] = (_swap, _drop, _insert, _repeat, _change_case)
