"""A word in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elmokit.errors import InputError


@dataclass(frozen=True)
class Occurrence:
    """One token of a sentence."""

    tokens: tuple[str, ...]
    position: int  # of the token, from 0

    @property
    def word(self) -> str:
        """The token itself."""
        return self.tokens[self.position]

    def marked(self, mark: Callable[[str], str] = lambda word: f"**{word}**") -> str:
        """The sentence, its tokens between spaces, with `mark` applied to this one."""
        return " ".join([*self.tokens[: self.position], mark(self.word), *self.tokens[self.position + 1 :]])


@dataclass(frozen=True)
class Neighbour:
    """An occurrence, and how near it is."""

    occurrence: Occurrence
    similarity: float  # cosine


def find_word(tokens: Sequence[str], word: str) -> Occurrence:
    """The occurrence of a word that the user named; `word#2` is its second.

    Case counts only if the sentence has the word in the very case that was asked for. A word that is not there, or is
    there more than once without a number, is an InputError: nobody knows which one is meant.
    """
    numbered = None if word in tokens else re.fullmatch(r"(.+)#([0-9]{1,9})", word)
    wanted, number = (numbered[1], int(numbered[2])) if numbered else (word, None)
    places = [k for k, token in enumerate(tokens) if token == wanted]
    if not places:
        places = [k for k, token in enumerate(tokens) if token.casefold() == wanted.casefold()]
    if not places:
        raise InputError(f"--word: expected a token of the sentence, found {wanted!r}; its tokens: {' '.join(tokens)}")
    if number is None and len(places) > 1:
        choices = " or ".join(f"{wanted}#{k}" for k in range(1, len(places) + 1))
        raise InputError(f"--word: {wanted!r} occurs {len(places)} times in the sentence; say {choices}")
    if number is not None and not 1 <= number <= len(places):
        raise InputError(f"--word: expected {wanted}#1 to {wanted}#{len(places)}, found {word}")
    return Occurrence(tuple(tokens), places[(number or 1) - 1])
