"""Memory-mapped store of the sentences of a corpus: four bytes per token."""

from __future__ import annotations

from array import array
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.shared.occurrence import Occurrence
from elmokit.disk.array_file import map_array
from elmokit.disk.json_file import read_bytes
from elmokit.errors import FormatError

WORDS, TOKENS, STARTS = "words.txt", "tokens.npy", "starts.npy"


class SentenceWriter:
    """Collects sentences and writes them at the end.

    `words.txt` has the distinct words, one per line; `tokens.npy` the word index of every token; `starts.npy` the start
    of each sentence in it, and the end of the last one.
    """

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._tokens = array("I")
        self._starts = array("Q", [0])

    @property
    def progress(self) -> tuple[int, int]:
        """Number of sentences and tokens so far."""
        return len(self._starts) - 1, len(self._tokens)

    def add(self, tokens: list[str]) -> None:
        """Add a sentence."""
        words = self._words
        self._tokens.extend([words.setdefault(token, len(words)) for token in tokens])
        self._starts.append(len(self._tokens))

    def write(self, folder: Path) -> None:
        """Write the three files."""
        (folder / WORDS).write_text("".join(f"{word}\n" for word in self._words), encoding="utf-8", newline="\n")
        np.save(folder / TOKENS, np.asarray(self._tokens, dtype=np.uint32))
        np.save(folder / STARTS, np.asarray(self._starts, dtype=np.uint64))


class SentenceStore:
    """Reader of the files of a SentenceWriter."""

    def __init__(self, folder: Path) -> None:
        try:
            self.words = read_bytes(folder / WORDS, 2**40).decode("utf-8").split("\n")[:-1]
            self._tokens: NDArray[np.uint32] = map_array(folder / TOKENS, np.uint32, 1)
            self._starts: NDArray[np.uint64] = map_array(folder / STARTS, np.uint64, 1)
            whole = len(self._tokens) and len(self._starts) > 1 and self._starts[-1] == len(self._tokens)
            # one pass over four bytes per token, so that invalid indices fail here and not in a search
            if not whole or self._starts[0] or int(self._tokens.max()) >= len(self.words):
                raise ValueError("they do not belong together")
            if (self._starts[1:] < self._starts[:-1]).any():
                raise ValueError("sentence starts are not in ascending order")
        except (OSError, ValueError) as error:
            raise FormatError(f"{folder}: expected {WORDS}, {TOKENS} and {STARTS} of an index ({error})") from None

    def __len__(self) -> int:
        """Total number of tokens."""
        return len(self._tokens)

    def occurrence(self, row: int) -> Occurrence:
        """The sentence that contains a token."""
        number = int(np.searchsorted(self._starts, np.uint64(row), side="right")) - 1
        start, end = int(self._starts[number]), int(self._starts[number + 1])
        return Occurrence(tuple(self.words[k] for k in self._tokens[start:end]), row - start)

    def rows(self, word: str) -> NDArray[np.int64]:
        """Token positions of a word in the corpus, ignoring case."""
        wanted = np.zeros(len(self._tokens), dtype=bool)
        for number in self._numbers.get(word.casefold(), ()):
            wanted |= self._tokens == number
        return np.flatnonzero(wanted)

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """Word indices by case-folded word."""
        numbers: dict[str, list[int]] = {}
        for number, word in enumerate(self.words):
            numbers.setdefault(word.casefold(), []).append(number)
        return numbers
