"""The sentences of a corpus in small files that are memory-mapped: four bytes a token."""

from __future__ import annotations

from array import array
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.occurrence import Occurrence
from elmokit.errors import FormatError

WORDS, TOKENS, STARTS = "words.txt", "tokens.npy", "starts.npy"


class SentenceWriter:
    """Takes sentences one after the other and writes them at the end.

    `words.txt` has the distinct words, one a line; `tokens.npy` the number of every token's word; `starts.npy` where in
    it each sentence starts, and where the last one ends.
    """

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._tokens = array("I")
        self._starts = array("Q", [0])

    @property
    def progress(self) -> tuple[int, int]:
        """Sentences and tokens so far."""
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
    """The sentences that a SentenceWriter wrote."""

    def __init__(self, folder: Path) -> None:
        try:
            self.words = (folder / WORDS).read_bytes().decode("utf-8").split("\n")[:-1]
            self._tokens: NDArray[np.uint32] = np.load(folder / TOKENS, mmap_mode="r", allow_pickle=False)
            self._starts: NDArray[np.uint64] = np.load(folder / STARTS, mmap_mode="r", allow_pickle=False)
            whole = self._tokens.ndim == self._starts.ndim == 1 and self._starts[-1] == len(self._tokens)
            # the mapped files are looked at where they are used; a number that has no word would be found there
            if not whole or int(self._tokens.max()) >= len(self.words):
                raise ValueError("they do not belong together")
        except (OSError, ValueError, IndexError, EOFError) as error:
            raise FormatError(f"{folder}: expected {WORDS}, {TOKENS} and {STARTS} of an index ({error})") from None

    def __len__(self) -> int:
        """Tokens in all."""
        return len(self._tokens)

    def occurrence(self, row: int) -> Occurrence:
        """The sentence that a token stands in."""
        number = int(np.searchsorted(self._starts, np.uint64(row), side="right")) - 1
        start, end = int(self._starts[number]), int(self._starts[number + 1])
        return Occurrence(tuple(self.words[k] for k in self._tokens[start:end]), row - start)

    def rows(self, word: str) -> NDArray[np.int64]:
        """Where a word stands in the corpus, whatever its case."""
        wanted = np.zeros(len(self._tokens), dtype=bool)
        for number in self._numbers.get(word.casefold(), ()):
            wanted |= self._tokens == number
        return np.flatnonzero(wanted)

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """The numbers of words that differ in case alone."""
        numbers: dict[str, list[int]] = {}
        for number, word in enumerate(self.words):
            numbers.setdefault(word.casefold(), []).append(number)
        return numbers
