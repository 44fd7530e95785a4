"""A vocabulary file: words to ids and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.config import ModelConfig
from elmokit.errors import InputError, OutputError
from elmokit.text.characters import BOS, EOS, UNK
from elmokit.text.lines import COMPRESSED_SUFFIXES, read_lines

Marks = tuple[str, str, str]  # begin of sentence, end of sentence, unknown word

PUBLISHED_MARKS: Marks = (BOS, EOS, UNK)
MANY_LANGS_MARKS: Marks = ("<bos>", "<eos>", "<oov>")


class Vocabulary:
    """Words in the order of their ids, with the marks for begin of sentence, end of sentence and unknown word.

    `begin`, `end` and `unknown` are the marks' ids, or None where the vocabulary has no such word: never -1, which
    would silently index the last word. A word that stands twice keeps both rows and is looked up under its last id,
    as in the published readers. Words are cut to the `longest` before they are looked up.
    """

    def __init__(
        self, words: Iterable[str], *, marks: Marks = PUBLISHED_MARKS, longest: int | None = None
    ) -> None:  # fmt: skip
        self.words = tuple(words)
        self.marks, self.longest = marks, longest
        self._ids = {word: index for index, word in enumerate(self.words)}
        self.begin, self.end, self.unknown = (self._ids.get(mark) for mark in marks)

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Vocabulary:
        """One word a line, stripped. The line `!!!MAXTERMID` takes no id."""
        stripped = (line.strip() for line in lines)
        return cls(word for word in stripped if word != "!!!MAXTERMID")

    @classmethod
    def from_file(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary file: plain, `.gz`, `.xz`, `.bz2` or `.zst`."""
        return cls.from_lines(read_lines(path))

    def ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The id of each word, (n,); unknown words get the id of the unknown mark."""
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
        """Write one word a line, as plain text: whole or not at all."""
        path = Path(path)
        if path.suffix in COMPRESSED_SUFFIXES:
            raise OutputError(f"{path}: a vocabulary is written as plain text; leave out {path.suffix}")
        for index, word in enumerate(self.words):
            if word == "!!!MAXTERMID" or word != word.strip() or "\n" in word or "\r" in word:
                raise OutputError(f"{path}: word {index}, {word!r}, would not be read back; remove or replace it")
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open(beside, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{word}\n" for word in self.words)
            beside.replace(path)
        except (OSError, UnicodeEncodeError) as error:  # the latter: a lone surrogate
            raise OutputError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from None
        finally:
            beside.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids


def marks_of(config: ModelConfig) -> Marks:
    """The marks in the vocabulary of a model of this shape."""
    return MANY_LANGS_MARKS if _is_many_langs(config) else PUBLISHED_MARKS


def vocabulary_of(config: ModelConfig, words: Iterable[str]) -> Vocabulary:
    """The vocabulary of a model of this shape, which has these words."""
    longest = None
    if _is_many_langs(config) and config.char_cnn is not None:
        longest = config.char_cnn.max_characters - 2  # ELMoForManyLangs cuts a word before it looks it up
    return Vocabulary(words, marks=marks_of(config), longest=longest)


def _is_many_langs(config: ModelConfig) -> bool:
    return config.n_words > 0 and config.char_cnn is not None
