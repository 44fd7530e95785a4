"""Tokenization of input sentences, raw or already tokenized."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from elmokit.errors import InputError
from elmokit.text.tokenizer import Tokenizer, tokenize


@dataclass
class TokenizedSentence:
    """Tokens of a sentence; with the raw text and the offsets in it, if it came as text."""

    tokens: list[str]
    text: str | None = None
    offsets: list[tuple[int, int]] | None = None


def tokenized(sentences: Iterable[str | Sequence[str]], tokenizer: Tokenizer) -> Iterator[TokenizedSentence]:
    """Tokenize strings; lists of tokens stay as they are. Anything else is an InputError that gives its number."""
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            tokens, offsets = tokenize(sentence, tokenizer)
            yield TokenizedSentence(tokens, sentence, offsets)
        elif isinstance(sentence, Sequence) and all(isinstance(token, str) for token in sentence):
            yield TokenizedSentence(list(sentence))
        else:
            raise InputError(f"sentence {number}: expected text or a list of tokens, found {str(sentence)[:40]!r}")
