"""Vocabularies: mapping between words and ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.config import ModelConfig
from elmokit.disk.limits import exceeded, limits
from elmokit.disk.whole import new_file
from elmokit.errors import InputError, OutputError
from elmokit.text.characters import BOS, EOS, UNK
from elmokit.text.lines import COMPRESSED_SUFFIXES, read_lines

Marks = tuple[str, str, str]  # special tokens: start of sentence, end of sentence, unknown word

PUBLISHED_MARKS: Marks = (BOS, EOS, UNK)
MANY_LANGS_MARKS: Marks = ("<bos>", "<eos>", "<oov>")


class Vocabulary:
    """Words in id order, with special tokens for start of sentence, end of sentence and unknown word.

    `begin`, `end` and `unknown` are the ids of the special tokens, or None if the vocabulary lacks them: never -1,
    which would silently index the last word. A duplicate word keeps both rows and is looked up under its last id, as in
    the published readers. Words are truncated to `longest` characters before the lookup.
    """

    def __init__(self, words: Iterable[str], *, marks: Marks = PUBLISHED_MARKS, longest: int | None = None) -> None:
        self.words = tuple(words)
        self.marks, self.longest = marks, longest
        self._ids = {word: index for index, word in enumerate(self.words)}
        self.begin, self.end, self.unknown = (self._ids.get(mark) for mark in marks)

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Vocabulary:
        """Read one word per line, stripped. The line `!!!MAXTERMID` has no id."""
        stripped = (line.strip() for line in lines)
        return cls(word for word in stripped if word != "!!!MAXTERMID")

    @classmethod
    def from_file(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary file: plain, `.gz`, `.xz`, `.bz2` or `.zst`."""
        return cls.from_lines(_limited(read_lines(path), str(path)))

    def ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Ids of words, (n,); out-of-vocabulary words get the id of the unknown token."""
        get, unknown = self._ids.get, self.unknown
        if self.longest is not None:
            words = [word if word in self.marks else word[: self.longest] for word in words]
        if unknown is not None:
            return np.array([get(word, unknown) for word in words], dtype=np.int64)
        found = np.array([get(word, -1) for word in words], dtype=np.int64)
        if (found < 0).any():
            word = words[int(np.argmin(found))]
            raise InputError(
                f"vocabulary: expected {word!r} or {self.marks[2]}, found neither; add {self.marks[2]} to it"
            )
        return found

    def write(self, path: str | Path) -> None:
        """Write one word per line, as plain text, atomically."""
        path = Path(path)
        if path.suffix in COMPRESSED_SUFFIXES:
            raise OutputError(f"{path}: a vocabulary is written as plain text; leave out {path.suffix}")
        for index, word in enumerate(self.words):
            if word == "!!!MAXTERMID" or word != word.strip() or "\n" in word or "\r" in word:
                raise OutputError(f"{path}: word {index}, {word!r}, would not be read back; remove or replace it")
        try:
            with new_file(path) as fresh, open(fresh, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{word}\n" for word in self.words)
        except UnicodeEncodeError as error:  # a lone surrogate
            raise OutputError(f"{path}: cannot be written ({error})") from None

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids


def _limited(lines: Iterable[str], label: str) -> Iterator[str]:
    """Lines of a vocabulary; raises a FormatError for too many: as strings they take many times the file size."""
    most_words, most = limits().words, limits().text
    size = 0
    for count, line in enumerate(lines, start=1):
        size += len(line) + 1
        if count > most_words:
            raise exceeded(label, f"expected at most {most_words:,} words, found more")
        if size > most:
            raise exceeded(label, f"expected at most {most:,} characters of words, found more")
        yield line


def marks_of(config: ModelConfig) -> Marks:
    """Special tokens in the vocabulary of a model."""
    return MANY_LANGS_MARKS if _is_many_langs(config) else PUBLISHED_MARKS


def vocabulary_of(config: ModelConfig, words: Iterable[str]) -> Vocabulary:
    """Vocabulary of a model with these words."""
    longest = None
    if _is_many_langs(config) and config.char_cnn is not None:
        longest = config.char_cnn.max_characters - 2  # ELMoForManyLangs truncates words before the lookup
    return Vocabulary(words, marks=marks_of(config), longest=longest)


def _is_many_langs(config: ModelConfig) -> bool:
    return config.n_words > 0 and config.char_cnn is not None
