"""A question about a passage, in characters and in tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import chain

from elmokit.errors import InputError
from elmokit.text.tokenizer import words, words_by_sentence

AnswerSpan = tuple[int, int]  # first and last token, inclusive


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage and its tokens, shared by all questions about it."""

    text: str
    sentences: tuple[tuple[str, ...], ...]  # tokenized; none is empty
    offsets: tuple[tuple[int, int], ...]  # character offsets of each token

    @classmethod
    def from_text(cls, text: str) -> Passage:
        """Split raw English text into sentences and tokens."""
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

    def tokens_at(self, start: int, end: int) -> AnswerSpan:
        """The smallest token span that covers the characters from start to end, whose ends are not whitespace.

        An answer may start or end inside a token (`1990` in `1990s`): the whole token is included.
        """
        first = bisect_right(self.offsets, start, key=lambda offset: offset[1])
        last = bisect_left(self.offsets, end, lo=first, key=lambda offset: offset[1])
        return first, last

    def characters_at(self, span: AnswerSpan) -> tuple[int, int]:
        """Character offsets of a token span."""
        first, last = span
        return self.offsets[first][0], self.offsets[last][1]

    def window(self, first: int, n_tokens: int) -> Passage:
        """Crop to a range of tokens; sentences at the edges may be cut."""
        sentences, at = [], 0
        for sentence in self.sentences:
            sentences.append(sentence[max(0, first - at) : max(0, first + n_tokens - at)])
            at += len(sentence)
        return Passage(self.text, tuple(filter(None, sentences)), self.offsets[first : first + n_tokens])


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `span` is the training target: None if no answer occurs at its annotated position."""

    id: str
    article: str  # title of the article
    passage: Passage
    text: str
    tokens: tuple[str, ...]
    answers: tuple[str, ...] = ()  # all reference answers; empty if unknown
    span: AnswerSpan | None = None

    @classmethod
    def from_text(
        cls,
        text: str,
        passage: Passage,
        *,
        id: str = "",
        article: str = "",
        answers: tuple[str, ...] = (),
        span: AnswerSpan | None = None,
    ) -> Question:
        """Tokenize a question; a question or passage without a token is an error."""
        tokens = tuple(token.text for token in words(text))
        for name, found in (("question", tokens), ("passage", passage.sentences)):
            if not found:
                where = f"question {id!r}: " if id else ""
                raise InputError(f"{where}expected a {name} with at least one word, found an empty one; leave it out")
        return cls(id, article, passage, text, tokens, answers, span)

    def cut(self, max_tokens: int) -> Question:
        """Crop the passage to a maximum number of tokens, centered on the answer, which is always kept whole."""
        n_tokens = len(self.passage.offsets)
        if self.span is None or n_tokens <= max_tokens:
            return self
        first, last = self.span
        size = max(max_tokens, last - first + 1)
        begin = min(max(0, (first + last + 1 - size) // 2), n_tokens - size)
        return replace(self, passage=self.passage.window(begin, size), span=(first - begin, last - begin))
