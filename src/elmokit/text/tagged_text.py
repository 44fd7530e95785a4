"""Tagged text from any column of a CoNLL file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmokit.errors import ConfigError, InputError
from elmokit.text.columns import read_blocks
from elmokit.text.lines import COMPRESSED_SUFFIXES

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U


@dataclass(frozen=True)
class TaggedText:
    """Sentences, and the concatenated tags of their tokens."""

    sentences: list[list[str]]
    tags: list[str]
    file: Path

    @property
    def words(self) -> list[str]:
        """All tokens, concatenated."""
        return [word for sentence in self.sentences for word in sentence]

    def tagged_sentences(self) -> Iterator[tuple[list[str], list[str]]]:
        """The tokens and the tags of every sentence."""
        start = 0
        for sentence in self.sentences:
            yield sentence, self.tags[start : start + len(sentence)]
            start += len(sentence)


def read_tagged(path: str | os.PathLike[str], column: str, word_column: int | None = None) -> TaggedText:
    """Read a file, plain or compressed: `.conllu` is CoNLL-U, any other suffix means space-separated columns.

    column: of the tags, a number from 1 or, in CoNLL-U, a name. word_column: by default 2 in CoNLL-U, else 1.
    CoNLL-U is read as syntactic words: ranges and empty nodes are skipped. -DOCSTART- lines are skipped.
    """
    path = Path(path)
    name = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSED_SUFFIXES else path.name
    is_conllu = name.endswith(".conllu")
    tags_at = _column(column, is_conllu, path)
    words_at = (1 if is_conllu else 0) if word_column is None else word_column - 1
    least = len(COLUMNS) if is_conllu else max(tags_at, words_at) + 1
    separator, comment = ("\t", "#") if is_conllu else (None, None)
    sentences: list[list[str]] = []
    tags: list[str] = []
    for block in read_blocks(path, separator=separator, comment=comment, least=least):
        if is_conllu:
            rows = [row for row in block.rows if row[0].isdecimal()]
        else:
            rows = [row for row in block.rows if row[0] != "-DOCSTART-"]
        if rows:
            sentences.append([row[words_at] for row in rows])
            tags += [row[tags_at] for row in rows]
    if not tags:
        raise InputError(f"{path}: expected sentences of words with tags, found none")
    return TaggedText(sentences, tags, path)


def _column(column: str, is_conllu: bool, path: Path) -> int:
    """Column index, from 0."""
    if column.isdecimal() and int(column) >= 1 and (not is_conllu or int(column) <= len(COLUMNS)):
        return int(column) - 1
    if is_conllu and column in COLUMNS:
        return COLUMNS.index(column)
    expected = f"1 to {len(COLUMNS)} or one of {', '.join(COLUMNS)}" if is_conllu else "a number from 1"
    raise ConfigError(f"--column: expected {expected} for {path.name}, found {column!r}")
