"""Alignment of tokens with the words and characters of a text, as `tokenizers.Encoding` gives it."""

from __future__ import annotations

from dataclasses import dataclass, replace

Span = tuple[int, int]


@dataclass(frozen=True)
class TokenAlignment:
    """Positions of the tokens of one text, or of a pair; `word_ids()` and others of `BatchEncoding` read them."""

    tokens: list[str]
    offsets: list[Span]  # of characters: in the text, or, of text that was split into words before, in the word
    word_ids: list[int | None]  # which word of its text; None for sentence marks between two texts, and padding
    sequence_ids: list[int | None]  # 0 for the first text, 1 for the second

    @property
    def n_sequences(self) -> int:
        """1, or 2 of a pair."""
        return 2 if 1 in self.sequence_ids else 1

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 at sentence marks and padding."""
        return [int(sequence is None) for sequence in self.sequence_ids]

    def __len__(self) -> int:
        return len(self.tokens)

    def padded(self, length: int, token: str, *, left: bool = False) -> TokenAlignment:
        """The same with padding tokens up to a length."""
        n = length - len(self)
        if n <= 0:
            return self
        nothing: list[int | None] = [None] * n
        parts = ([token] * n, [(0, 0)] * n, nothing, nothing)
        own = (self.tokens, self.offsets, self.word_ids, self.sequence_ids)
        joined = [more + some if left else some + more for some, more in zip(own, parts, strict=True)]  # type: ignore[operator]
        return replace(self, tokens=joined[0], offsets=joined[1], word_ids=joined[2], sequence_ids=joined[3])

    def token_to_sequence(self, token_index: int) -> int | None:
        """Index of the text that a token belongs to."""
        return self.sequence_ids[token_index]

    def token_to_word(self, token_index: int) -> int | None:
        """Index of the word that a token belongs to."""
        return self.word_ids[token_index]

    def token_to_chars(self, token_index: int) -> Span | None:
        """Characters of a token."""
        return None if self.sequence_ids[token_index] is None else self.offsets[token_index]

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> Span | None:
        """First token and last token + 1 of a word."""
        places = self._places(sequence_index)
        found = [place for place in places if self.word_ids[place] == word_index]
        return (found[0], found[-1] + 1) if found else None

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> Span | None:
        """Characters of a word."""
        span = self.word_to_tokens(word_index, sequence_index)
        return None if span is None else (self.offsets[span[0]][0], self.offsets[span[1] - 1][1])

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Token at a character; None between tokens."""
        for place in self._places(sequence_index):
            if self.offsets[place][0] <= char_pos < self.offsets[place][1]:
                return place
        return None

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Word at a character; None between words."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.word_ids[token]

    def _places(self, sequence: int) -> list[int]:
        return [place for place, found in enumerate(self.sequence_ids) if found == sequence]
