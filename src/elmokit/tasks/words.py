"""The words that a task's network has vectors of its own for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from elmokit.tasks.inputs import UNKNOWN, WordTable
from elmokit.tasks.settings import InputSettings
from elmokit.tasks.vectors import WordVectors, read_vectors

MARKS = ("<padding>", "<unknown>")  # rows 0 and 1; no token is ever looked up under these names
LEAST = 2  # times that a word without a given vector must occur to get a row; the others train the unknown word


@dataclass(frozen=True)
class Words:
    """Which row of the word table a token has: that of the token itself, else of its lower case, else the unknown's."""

    rows: Sequence[str]  # the word of every row; the first two are marks
    n_learnt: int  # rows that are trained; the others are fixed

    def __post_init__(self) -> None:
        numbers = {word: row for row, word in reversed(list(enumerate(self.rows))) if row >= len(MARKS)}
        object.__setattr__(self, "_numbers", numbers)

    def row(self, token: str) -> int:
        """The row of a token."""
        numbers: dict[str, int] = self._numbers  # type: ignore[attr-defined]
        row = numbers.get(token)
        return row if row is not None else numbers.get(token.lower(), UNKNOWN)


def new_words(
    settings: InputSettings, train: Iterable[Sequence[str]], others: Iterable[Sequence[str]]
) -> tuple[Words, WordTable | None]:
    """The words of a new run and their table; None where there are to be no static vectors.

    Words with a given vector: all of train and others (their labels are not looked at), and the most frequent of the
    file. Words without one: those that occur in train at least twice. First values come from torch's generator.
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
    table = WordTable(learnt=torch.cat((fresh, vectors[trained])), fixed=vectors[fixed])
    return Words(rows, len(table.learnt)), table
