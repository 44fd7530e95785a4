"""Vocabulary of a task: the words with a row in its word table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from elmokit.tasks.shared.inputs import UNKNOWN, WordTable
from elmokit.tasks.shared.task_settings import InputSettings
from elmokit.text.word_vectors import WordVectors, read_vectors

MARKS = ("<padding>", "<unknown>")  # rows 0 and 1; tokens are never looked up by these names
LEAST = 2  # minimum count of a word without a pretrained vector to get a row; rarer words train the unknown word


@dataclass(frozen=True)
class Words:
    """Maps a token to its row of the word table: exact match, then lower case, then the unknown word."""

    rows: Sequence[str]  # word of each row; the first two are special
    n_learned: int  # number of trained rows; the others are fixed

    def __post_init__(self) -> None:
        numbers = {word: row for row, word in reversed(list(enumerate(self.rows))) if row >= len(MARKS)}
        object.__setattr__(self, "_numbers", numbers)

    def row(self, token: str) -> int:
        """Row of a token."""
        numbers: dict[str, int] = self._numbers  # type: ignore[attr-defined]
        row = numbers.get(token)
        return row if row is not None else numbers.get(token.lower(), UNKNOWN)


def new_words(
    settings: InputSettings, train: Iterable[Sequence[str]], others: Iterable[Sequence[str]]
) -> tuple[Words, WordTable | None]:
    """Build the vocabulary and word table of a new run; None without static vectors.

    Words with a pretrained vector: all of train and others (without looking at labels), and the most frequent ones of
    the vector file. Words without: those that occur at least twice in train. Initial values are drawn with torch.
    """
    counts = Counter(token for tokens in train for token in tokens)
    seen = counts.keys() | {token for tokens in others for token in tokens}
    given = WordVectors([], np.zeros((0, settings.word_dim), np.float32))
    if settings.vectors is not None:
        given = read_vectors(Path(settings.vectors).expanduser(), seen)
    elif not settings.word_dim:
        return Words(MARKS, len(MARKS)), None
    known = set(given.words)

    def home(token: str) -> str:
        return token if token in known or token.lower() not in known else token.lower()

    frequent = sorted(counts, key=lambda token: (-counts[token], token))
    without = [token for token in frequent if counts[token] >= LEAST and home(token) not in known]
    in_train = {home(token) for token in counts}
    trained = [k for k, word in enumerate(given.words) if settings.train_vectors and word in in_train]
    fixed = sorted(set(range(len(given.words))) - set(trained))

    deviation = float(given.vectors.std()) if len(given.words) else settings.word_dim**-0.5
    fresh = torch.randn(len(MARKS) + len(without), given.vectors.shape[1]) * deviation
    vectors = torch.from_numpy(given.vectors)
    rows = [*MARKS, *without, *(given.words[k] for k in (*trained, *fixed))]
    table = WordTable(learned=torch.cat((fresh, vectors[trained])), fixed=vectors[fixed])
    return Words(rows, len(table.learned)), table
