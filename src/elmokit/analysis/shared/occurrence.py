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
    position: int  # token index, from 0

    @property
    def word(self) -> str:
        """The token itself."""
        return self.tokens[self.position]

    def marked(self, mark: Callable[[str], str] = lambda word: f"**{word}**") -> str:
        """The tokens joined by spaces, with `mark` applied to this one."""
        return " ".join([*self.tokens[: self.position], mark(self.word), *self.tokens[self.position + 1 :]])


@dataclass(frozen=True)
class Neighbor:
    """An occurrence and its similarity."""

    occurrence: Occurrence
    similarity: float  # cosine


def find_word(tokens: Sequence[str], word: str, *, substring: bool = False) -> Occurrence:
    """The occurrence of a word that the user named; `word#2` is its second; with `substring` also inside a token.

    An exact match takes precedence over a match that ignores case. A word that does not occur, or that occurs more
    than once without a number, is an InputError.
    """
    numbered = None if word in tokens else re.fullmatch(r"(.+)#([0-9]{1,9})", word)
    wanted, number = (numbered[1], int(numbered[2])) if numbered else (word, None)
    places = [k for k, token in enumerate(tokens) if token == wanted]
    if not places:
        places = [k for k, token in enumerate(tokens) if token.casefold() == wanted.casefold()]
    inside = [k for k, token in enumerate(tokens) if wanted.casefold() in token.casefold()]
    if not places and substring:
        places = inside
    if not places:
        hint = "; use --substring for a part of a token" if inside and not substring else ""
        raise InputError(
            f"--word: expected a token of the sentence, found {wanted!r}; its tokens: {' '.join(tokens)}{hint}"
        )
    if number is None and len(places) > 1:
        choices = " or ".join(f"{wanted}#{k}" for k in range(1, len(places) + 1))
        raise InputError(f"--word: {wanted!r} occurs {len(places)} times in the sentence; use {choices}")
    if number is not None and not 1 <= number <= len(places):
        raise InputError(f"--word: expected {wanted}#1 to {wanted}#{len(places)}, found {word}")
    return Occurrence(tuple(tokens), places[(number or 1) - 1])
