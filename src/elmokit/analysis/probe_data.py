"""Text with a tag for each token, out of any column of a CoNLL file; and the baseline that knows words only."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.columns import read_blocks
from elmokit.text.lines import COMPRESSED_SUFFIXES

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U


@dataclass(frozen=True)
class TaggedText:
    """Sentences, and the tags of all their tokens one after the other."""

    sentences: list[list[str]]
    tags: list[str]
    file: Path

    @property
    def words(self) -> list[str]:
        """All tokens one after the other."""
        return [word for sentence in self.sentences for word in sentence]


def read_tagged(path: str | os.PathLike[str], column: str, word_column: int | None = None) -> TaggedText:
    """Read a file, plain or compressed: `.conllu` is CoNLL-U, any other name means columns between spaces.

    column: the tags: a number from 1 or, in CoNLL-U, a name. word_column: by default 2 in CoNLL-U, else 1.
    Of CoNLL-U the syntactic words are taken: no ranges, no empty nodes. Lines of -DOCSTART- are left out.
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
    """Its number from 0."""
    if column.isdecimal() and int(column) >= 1 and (not is_conllu or int(column) <= len(COLUMNS)):
        return int(column) - 1
    if is_conllu and column in COLUMNS:
        return COLUMNS.index(column)
    expected = f"1 to {len(COLUMNS)} or one of {', '.join(COLUMNS)}" if is_conllu else "a number from 1"
    raise ConfigError(f"--column: expected {expected} for {path.name}, found {column!r}")


def majority_per_word(train: TaggedText, words: Sequence[str]) -> list[str]:
    """The most frequent tag of each word in the training text; of a word that it lacks, the most frequent of all.

    Of equally frequent tags the one that is more frequent overall is taken, and then the first by the alphabet.
    """
    overall = Counter(train.tags)
    order = sorted(overall, key=lambda tag: (-overall[tag], tag))
    rank = {tag: number for number, tag in enumerate(order)}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(train.words, train.tags, strict=True):
        counts[word][tag] += 1
    best = {word: min(tags, key=lambda tag: (-tags[tag], rank[tag])) for word, tags in counts.items()}
    return [best.get(word, order[0]) for word in words]
