"""A question about a passage, in characters and in tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import chain

from elmokit.errors import InputError
from elmokit.text.tokenizer import words, words_by_sentence

Span = tuple[int, int]  # first and last token, both in it


@dataclass(frozen=True, slots=True)
class Passage:
    """A text and its tokens; the questions about it share one object."""

    text: str
    sentences: tuple[tuple[str, ...], ...]  # of tokens; none is empty
    offsets: tuple[tuple[int, int], ...]  # of each token in the text, in characters

    @classmethod
    def from_text(cls, text: str) -> Passage:
        """Find the sentences and the tokens of raw English text."""
        sentences = words_by_sentence(text)
        return cls(
            text,
            tuple(tuple(token.text for token in sentence) for sentence in sentences),
            tuple((token.start, token.end) for token in chain.from_iterable(sentences)),
        )

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of all sentences."""
        return tuple(chain.from_iterable(self.sentences))

    def tokens_at(self, start: int, end: int) -> Span:
        """The fewest tokens that hold the characters from start to end, of which the outer two are not white space.

        An answer may begin or end inside a token (`1990` in `1990s`): the token counts whole.
        """
        first = bisect_right(self.offsets, start, key=lambda offset: offset[1])
        last = bisect_left(self.offsets, end, lo=first, key=lambda offset: offset[1])
        return first, last

    def characters_at(self, span: Span) -> tuple[int, int]:
        """Where the tokens of a span begin and end in the text."""
        first, last = span
        return self.offsets[first][0], self.offsets[last][1]

    def window(self, first: int, n_tokens: int) -> Passage:
        """The same text, of which only some tokens are seen; a sentence that is not whole is what is left of it."""
        sentences, at = [], 0
        for sentence in self.sentences:
            sentences.append(sentence[max(0, first - at) : max(0, first + n_tokens - at)])
            at += len(sentence)
        return Passage(self.text, tuple(filter(None, sentences)), self.offsets[first : first + n_tokens])


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `span` is what training aims at: None where no answer stands where the data says it does."""

    id: str
    article: str  # title of the article that the passage is from
    passage: Passage
    text: str
    tokens: tuple[str, ...]
    answers: tuple[str, ...] = ()  # all that annotators gave; empty when it is not known
    span: Span | None = None

    @classmethod
    def from_text(
        cls, text: str, passage: Passage, *, id: str = "", article: str = "", answers: tuple[str, ...] = (),
        span: Span | None = None,
    ) -> Question:  # fmt: skip
        """Tokenise a question; a question or passage without a single token is an error."""
        tokens = tuple(token.text for token in words(text))
        for name, found in (("question", tokens), ("passage", passage.sentences)):
            if not found:
                where = f"question {id!r}: " if id else ""
                raise InputError(f"{where}expected a {name} with at least one word, found an empty one; leave it out")
        return cls(id, article, passage, text, tokens, answers, span)

    def cut(self, max_tokens: int) -> Question:
        """The question with a passage of at most so many tokens, the answer in their middle (and always whole)."""
        n_tokens = len(self.passage.offsets)
        if self.span is None or n_tokens <= max_tokens:
            return self
        first, last = self.span
        size = max(max_tokens, last - first + 1)
        begin = min(max(0, (first + last + 1 - size) // 2), n_tokens - size)
        return replace(self, passage=self.passage.window(begin, size), span=(first - begin, last - begin))
