"""Tokenizers: raw text to tokens with character offsets.

`words` is a single scan of a regular expression, so token offsets are match offsets. NLTK's Treebank tokenizer rewrites
the text and searches for its tokens afterwards: it splits words with curly apostrophes wrongly, and is slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from elmokit.errors import InputError, MissingExtraError
from elmokit.text.sentences import is_abbreviation, is_dotted
from elmokit.text.sentences import split_sentences as split_sentences


@dataclass(frozen=True, slots=True)
class Token:
    """Token with its character offsets in the raw text: `raw[start:end]`."""

    text: str
    start: int
    end: int


Tokenizer = Callable[[str], Iterable["Token | str"]]


def spaces(text: str) -> list[Token]:
    """Split at white space, as `str.split` does."""
    return [Token(match.group(), *match.span()) for match in re.finditer(r"\S+", text)]


_OPEN_OR_CLOSE = r"\"()\[\]{}<>“”„‟«»‹›「」『』（）【】〈〉《》‘‚`"
_ALWAYS_APART = r"\s,;:!?…—―‒$£€¥%¿¡、。，．！？；：" + _OPEN_OR_CLOSE
_PIECE = re.compile(
    rf"""
      (?:https?|ftp)://[^\s<>"“”]*[\w/]               # a web address
    | \.{{2,3}} | -{{2,}} | '' | ``                   # ellipsis, dash, typewriter quotes
    | ['’](?i:s|re|ve|ll|d|m|em|n|bout|cause|round|til|tis|twas|\d0s)(?![\w-])  # clitics that stand alone, 'em, '90s
    | [A-Z]{{1,3}}\$                                  # US$
    | (                                               # 1: a word:
        (?: [^.'’–{_ALWAYS_APART}-]++
          | (?<!-)-(?!-)                              #   any single hyphen,
          | \.(?=-?\w)(?!(?<=[a-z][a-z]\.)[A-Z][a-z])  #   a dot before a letter, but not "end.The",
          | (?<=\w)['’–](?=\w)                        #   an apostrophe or en dash between letters,
          | (?<=\d)[,:](?=\d)                         #   a comma or colon between digits
        )++
      ) (\.(?![\w.]))?                                # 2: and the dot after it
    | \S                                              # anything else, one by one
    """,
    re.VERBOSE,
)
_CLITIC = re.compile(r"(?<=[^\W_])(?:n['’]t|['’](?:s|re|ve|ll|d|m))\Z", re.IGNORECASE)
_JOINED = {"cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "gimme": 3, "lemme": 3}  # start of the second word
_PLAIN = str.maketrans(
    dict.fromkeys("“”„‟«»", '"')
    | dict.fromkeys("‘’‚‛‹›", "'")
    | dict.fromkeys("—―", "--")
    | dict.fromkeys("‐‑‒–", "-")
    | {"…": "..."}
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", "")
)
_AFTER_FINAL_DOT = " \t\r\n\v\f\"'’”»)]}"


def words(text: str) -> list[Token]:
    """Penn Treebank style tokenization of English: `do n't`, `it 's`, `can not`, `$ 5`, `12 %`, `( s )`.

    Words with inner hyphens, slashes and dots stay whole, and abbreviations keep their dot, except at the end of the
    text. A text that ends in one like `U.S.` gets `U.S.` and `.`, which share that dot: the only tokens that overlap.
    Brackets are unchanged; curly quotes, long dashes and the like are normalized to ASCII, as in the training text, so
    a token's text may differ from the raw text at its offsets.
    """
    tokens: list[Token] = []
    body = text.rstrip().rstrip(_AFTER_FINAL_DOT)
    final_dot = len(body) - 1 if body.endswith(".") else -1
    for match in _PIECE.finditer(text):
        if match.lastindex is None:
            tokens.append(Token(match.group(), *match.span()))
            continue
        word, (start, end) = match[1], match.span(1)
        if match.lastindex == 1:
            tokens += _parts(word, start)
        elif is_dotted(word):
            tokens.append(Token(word + ".", start, end + 1))
            if end == final_dot:
                tokens.append(Token(".", end, end + 1))
        elif end != final_dot and (is_abbreviation(word, text[end + 1 : end + 3]) or text[end + 1 : end + 2] == ","):
            tokens.append(Token(word + ".", start, end + 1))
        else:
            tokens += _parts(word, start)
            tokens.append(Token(".", end, end + 1))
    return tokens if text.isascii() else [Token(plain(token.text), token.start, token.end) for token in tokens]


_RANGES = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN = re.compile(rf"[{_RANGES}]|[^{_RANGES}]+")


def han(text: str) -> list[Token]:
    """Tokenization of Chinese: every Han character is a token, and what stands between is split as by `words`.

    Character tokens need no dictionary, and are the same for Traditional and Simplified text.
    """
    tokens: list[Token] = []
    for token in words(text):
        if token.end - token.start != len(token.text):  # a normalized sign
            tokens.append(token)
            continue
        for part in _HAN.finditer(token.text):
            tokens.append(Token(part.group(), token.start + part.start(), token.start + part.end()))
    return tokens


def words_by_sentence(text: str) -> list[list[Token]]:
    """Split a text into sentences and tokenize each; offsets refer to the whole text."""
    return [
        [Token(token.text, start + token.start, start + token.end) for token in words(text[start:end])]
        for start, end in split_sentences(text)
    ]


def _parts(word: str, start: int) -> list[Token]:
    """Split the clitics off a word, from the right: `could n't 've`."""
    cuts = [len(word)]  # from right to left
    if "'" in word or "’" in word:
        while match := _CLITIC.search(word, max(0, cuts[-1] - 4), cuts[-1]):
            cuts.append(match.start())
    elif at := _JOINED.get(word.lower()):
        cuts.append(at)
    if len(cuts) == 1:
        return [Token(word, start, start + len(word))]
    return [Token(word[first:last], start + first, start + last) for first, last in pairwise([0, *reversed(cuts)])]


def from_spacy(nlp: Any) -> Tokenizer:
    """Tokenizer of a spaCy pipeline, or of the blank pipeline for a language code such as `de`."""
    if isinstance(nlp, str):
        try:
            import spacy
        except ImportError:
            raise MissingExtraError(f"the tokenizer spacy:{nlp}", "spacy") from None
        try:
            nlp = spacy.blank(nlp)
        except ImportError as error:  # unknown language, or its segmenter is not installed
            reason = " ".join(str(error).split())
            raise InputError(f"tokenizer spacy:{nlp}: expected a language that spaCy can load ({reason})") from None
    tokenizer = nlp.tokenizer

    def tokenize_with_spacy(text: str) -> list[Token]:
        doc = tokenizer(text)
        return [Token(token.text, token.idx, token.idx + len(token.text)) for token in doc if not token.is_space]

    return tokenize_with_spacy


NAMED: dict[str, Tokenizer] = {"words": words, "han": han, "spaces": spaces}


def get_tokenizer(tokenizer: str | Tokenizer) -> Tokenizer:
    """Tokenizer by name: one of `NAMED`, or `spacy:` with a language code; a function is returned as it is."""
    if callable(tokenizer):
        return tokenizer
    if tokenizer in NAMED:
        return NAMED[tokenizer]
    if isinstance(tokenizer, str) and tokenizer.startswith("spacy:"):
        return from_spacy(tokenizer.removeprefix("spacy:"))
    raise InputError(
        "tokenizer: expected words, han, spaces, spacy:<language code> (e.g. spacy:de) or a function, found "
        f"{tokenizer!r}"
    )


def tokenize(text: str, tokenizer: Tokenizer) -> tuple[list[str], list[tuple[int, int]] | None]:
    """Tokens of a text and their offsets; the offsets are None if the tokenizer returns strings."""
    items = list(tokenizer(text))
    if all(isinstance(item, Token) for item in items):
        return [item.text for item in items], [(item.start, item.end) for item in items]  # type: ignore[union-attr]
    tokens = [item.text if isinstance(item, Token) else item for item in items]
    for token in tokens:
        if not isinstance(token, str):
            raise InputError(f"tokenizer: expected it to return strings or Tokens, found {token!r}")
    return tokens, None


def plain(word: str) -> str:
    """Normalize punctuation as in the English training text: straight quotes, `--`, `...`, no invisible characters."""
    return word if word.isascii() else word.translate(_PLAIN) or word
