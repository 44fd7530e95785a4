"""The likeliest words at a place: after a text, before it, or in a gap of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, InputError
from elmokit.nn.bilm import BiLM
from elmokit.nn.packing import Packing
from elmokit.nn.softmax import Head
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize
from elmokit.text.vocabulary import marks_of
from elmokit.weights.model import Model

Direction = Literal["forward", "backward", "gap"]

GAP = "___"


@dataclass(frozen=True)
class WordPrediction:
    """A word or sentence mark, and its probability."""

    word: str
    probability: float


@torch.inference_mode()
def predict_next(
    model: Model,
    reader: WordReader,
    text: str | Sequence[str],
    *,
    direction: Direction | None = None,
    top: int = 10,
    gap: str = GAP,
    tokenizer: str | Tokenizer = "words",
    exclude: Collection[str] | None = None,
    head: Head | None = None,
) -> list[WordPrediction]:
    """The `top` likeliest words, the likeliest first.

    text: tokens, or text for `tokenizer`: the start of a sentence, or its end for the direction "backward".
    direction: "forward" predicts the word after the text, "backward" the word before it; the end or start of the
        sentence is predicted as its mark, `</S>` or `<S>`. "gap" predicts the word at `gap` in the text from both
        sides; it is the default if the text has a gap, otherwise "forward" is.
        p(w) ~ p(w | left) p(w | right), normalized over all words except sentence marks and excluded ones.
    exclude: words not to show; by default the unknown-word token.
    head: the output layer, for callers that keep it; else it is read from the model's files.
    """
    if gap == GAP:
        text = _short_gaps(text)
    if direction is None:
        direction = "gap" if gap and gap in text else "forward"
    if direction not in get_args(Direction):
        raise ConfigError(f"--direction: expected {', '.join(get_args(Direction))}, found {direction!r}")
    if top < 1:
        raise ConfigError(f"--top: expected 1 word or more, found {top}")
    if head is None:
        head = model.softmax().to(model.bilm.device)
    if model.vocabulary is None:
        raise ConfigError(
            f"{model.format} model: expected its softmax to have words, found none; put vocabulary.txt beside it"
        )
    split = get_tokenizer(tokenizer)
    *ends, unknown = marks_of(model.config)
    excluded = {unknown} if exclude is None else {*exclude}
    if direction == "gap":
        left, right = _around(text, gap)
        excluded.update(ends)
        log_p = _after(model.bilm, reader, _tokens(left, split), head)
        log_p = log_p + _before(model.bilm, reader, _tokens(right, split), head)
    else:
        log_p = (_after if direction == "forward" else _before)(model.bilm, reader, _tokens(text, split), head)
    hidden = [k for k, word in enumerate(model.vocabulary) if not word or word in excluded]
    log_p[hidden] = -torch.inf
    if direction == "gap":
        log_p = torch.log_softmax(log_p, dim=0)
    best = torch.topk(log_p, min(top, len(log_p) - len(hidden)))
    return [
        WordPrediction(model.vocabulary[k], p)
        for k, p in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
    ]


def _after(bilm: BiLM, reader: WordReader, tokens: list[str], head: Head) -> Tensor:
    """log p of every word to follow a sentence's first tokens, (V,)."""
    return head.log_probabilities(_read(bilm, reader, [reader.begin, *tokens], "forward")[-1:])[0]


def _before(bilm: BiLM, reader: WordReader, tokens: list[str], head: Head) -> Tensor:
    """log p of every word to precede a sentence's last tokens, (V,)."""
    return head.log_probabilities(_read(bilm, reader, [*tokens, reader.end], "backward")[:1])[0]


def _read(bilm: BiLM, reader: WordReader, tokens: list[str], direction: Literal["forward", "backward"]) -> Tensor:
    """(n, D), the output of the direction's last layer for each token."""
    ids = reader(tokens)
    characters, words = (None if t is None else t.to(bilm.device) for t in (ids.characters, ids.words))
    index = torch.arange(len(tokens), device=bilm.device)
    output = bilm(bilm.token_encoder(characters, words), index, Packing.from_lengths([len(tokens)], bilm.device))
    layers: list[Tensor] = getattr(output, direction)
    return layers[-1]


def _tokens(text: str | Sequence[str], tokenizer: Tokenizer) -> list[str]:
    return tokenize(text, tokenizer)[0] if isinstance(text, str) else list(text)


def _short_gaps(text: str | Sequence[str]) -> str | Sequence[str]:
    """Shorten longer runs of underscores to GAP; otherwise the rest of "____" would be read as a word."""
    if isinstance(text, str):
        return re.sub(f"{GAP}_+", GAP, text)
    return [GAP if re.fullmatch(f"{GAP}_+", token) else token for token in text]


def _around(text: str | Sequence[str], gap: str) -> tuple[str | Sequence[str], str | Sequence[str]]:
    """Text left and right of the single gap. The text is cut before it is tokenized, so any string can mark a gap."""
    found = text.count(gap)
    if not gap or found != 1:
        raise InputError(f"gap: expected one {gap or GAP!r} in the text, found {found if gap else 'no mark'}")
    at = text.index(gap)
    return text[:at], text[at + (len(gap) if isinstance(text, str) else 1) :]
