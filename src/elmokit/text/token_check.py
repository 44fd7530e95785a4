"""Detection of tokenized text, and warnings about malformed tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from elmokit.text.sentences import is_abbreviation, is_dotted

RAW = 0.04  # share of tokens with attached punctuation; tokenized corpora have below 0.01, raw text has above 0.1
FEW = 2  # tokens with attached punctuation that may be names, such as Yahoo!
ENOUGH = 20_000  # tokens after which the check stops
HAN_PER_TOKEN = 5  # characters per token; words of Chinese and Japanese have two on average

_OPENING = frozenset('"“„«([{（「『《')
_CLOSING = frozenset('.,;:!?…"”»)]}。，、！？；：）」』》')
_CLITIC = re.compile(r"[^\W_](?:n['’]t|['’](?:s|re|ve|ll|d|m))\Z", re.IGNORECASE)


def has_attached_punctuation(token: str) -> bool:
    """Whether punctuation or a clitic is attached to a token: `present.`, `"I`, `(Really?)`, `don't`."""
    if ("'" in token or "’" in token) and _CLITIC.search(token):
        return True
    if len(token) < 2 or not (token[-1] in _CLOSING or token[0] in _OPENING):
        return False
    if not any(map(str.isalnum, token)):
        return False
    word = token[:-1]
    return not (token[-1] == "." and (is_dotted(word) or is_abbreviation(word, "1")))


def looks_tokenized(lines: Iterable[str]) -> bool:
    """Whether these lines are tokenized already, with spaces between the tokens."""
    check = TokenCheck()
    for line in lines:
        check.add(line.split())
        if check.tokens >= ENOUGH:
            break
    return check.attached <= RAW * check.tokens and not check.unsegmented > check.han / 2


class TokenCheck:
    """Counts tokens that look as if a text had not been tokenized."""

    def __init__(self) -> None:
        self.tokens = 0
        self.attached = 0  # tokens with attached punctuation
        self.example = ""  # the first of them
        self.han = self.unsegmented = 0  # sentences of Chinese or Japanese; those that are not split into words

    def add(self, tokens: Sequence[str]) -> None:
        """Count the tokens of a sentence."""
        self.tokens += len(tokens)
        for token in tokens:
            if has_attached_punctuation(token):
                self.example = self.example or token
                self.attached += 1
        if not all(map(str.isascii, tokens)):
            self._add_han(tokens)

    @property
    def warning(self) -> str | None:
        """One sentence that names the fix; None if nothing is wrong."""
        if self.unsegmented > self.han / 2:
            return (
                "Chinese or Japanese sentences are not split into words: segment them first, or use a tokenizer such "
                "as han (Chinese) or spacy:ja"
            )
        if self.attached > max(FEW, RAW * self.tokens):
            return (
                f"{self.attached / self.tokens:.0%} of the tokens have punctuation attached, such as {self.example!r}, "
                "so they are read as different words: use the tokenizer words, or a spaCy one such as spacy:de"
            )
        return None

    def _add_han(self, tokens: Sequence[str]) -> None:
        counts = [n for token in tokens if (n := sum(map(_is_han, token)))]
        if sum(counts) >= HAN_PER_TOKEN:
            self.han += 1
            self.unsegmented += sum(counts) >= HAN_PER_TOKEN * len(counts)


def _is_han(character: str) -> bool:
    """A Chinese character or a Japanese syllable."""
    return "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff" or character >= "\U00020000"
