"""Output of taggers: colors on a terminal, and CoNLL columns."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from elmokit.errors import ConfigError
from elmokit.tasks.ner import COLORS

_SENTIMENTS = {
    "very negative": "red",
    "negative": "bright_red",
    "neutral": "yellow",
    "positive": "bright_green",
    "very positive": "green",
}
# Colors of the word classes, by universal tag and by the start of Penn Treebank tags; other tags are dim
_CLASSES = {
    "NOUN": "green",
    "PROPN": "bright_green",
    "VERB": "red",
    "AUX": "bright_red",
    "ADJ": "blue",
    "ADV": "magenta",
    "PRON": "cyan",
    "NN": "green",
    "NNP": "bright_green",
    "VB": "red",
    "MD": "bright_red",
    "JJ": "blue",
    "RB": "magenta",
    "PRP": "cyan",
    "WP": "cyan",
}


def colored(kind: str, result: dict[str, Any]) -> Text:
    """A result of `TextTagger.tag` for a terminal: the text with its entities, tags or sentiment in color."""
    text, offsets = _text_and_offsets(result)
    if kind == "sentiment":
        name = result["sentiment"]
        title = [(name, f"bold {_SENTIMENTS[name]}"), (f" {result['score']:.0%}", "dim")] if name else []
        return Text.assemble(*title, "  ", text)
    if kind == "ner":
        spans = [(entity["start"], entity["end"], entity["label"]) for entity in result["entities"]]
        marks = [(offsets[i][0], offsets[j - 1][1], label, COLORS.get(label, "cyan")) for i, j, label in spans]
    else:
        marks = [(a, b, tag, _color_of_tag(tag)) for (a, b), tag in zip(offsets, result["tags"], strict=True)]
    shown, at = Text(), 0
    for start, end, label, color in marks:
        start = max(start, at)  # the dot of "U.S." at the end of a text belongs to two tokens
        shown.append(text[at:start])
        shown.append(text[start:end], style=f"bold {color}" if kind == "ner" else color)
        shown.append(f" {label}" if kind == "ner" else f"/{label}", style=f"dim {color}")
        at = max(at, end)
    shown.append(text[at:])
    return shown


def conll(kind: str, result: dict[str, Any]) -> str:
    """A result of `TextTagger.tag` as columns: token, tab, tag; an empty line after every sentence."""
    require_tokens(kind)
    lines = []
    for start, end in result["sentences"]:
        pairs = zip(result["tokens"][start:end], result["tags"][start:end], strict=True)
        lines += [f"{''.join(token.split()) or '_'}\t{tag}\n" for token, tag in pairs]
        lines.append("\n")
    return "".join(lines)


def require_tokens(kind: str) -> None:
    """Check that a kind of tagger tags tokens, which CoNLL columns need."""
    if kind == "sentiment":
        raise ConfigError(
            "--format conll applies to tags of tokens (ner, pos, upos); sentiment is that of a whole text"
        )


def _color_of_tag(tag: str) -> str:
    return _CLASSES.get(tag) or _CLASSES.get(tag[:3]) or _CLASSES.get(tag[:2]) or "white"


def _text_and_offsets(result: dict[str, Any]) -> tuple[str, list[tuple[int, int]]]:
    """The text and the offsets of its tokens; tokens without a text are joined by spaces."""
    if "text" in result:
        return result["text"], [(a, b) for a, b in result["offsets"]]
    offsets, at = [], 0
    for token in result["tokens"]:
        offsets.append((at, at + len(token)))
        at += len(token) + 1
    return " ".join(result["tokens"]), offsets
