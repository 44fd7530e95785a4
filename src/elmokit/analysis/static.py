"""Static vectors, one a word whatever stands around it: trained, loaded, and asked for neighbours and analogies."""

from __future__ import annotations

import difflib
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.corpus import Corpus
from elmokit.analysis.vector_files import unit
from elmokit.embed.run import Progress
from elmokit.errors import ConfigError, InputError, MissingExtraError, OutputError
from elmokit.tasks.vectors import read_vectors

Algorithm = Literal["cbow", "skipgram"]


@dataclass(frozen=True)
class NearWord:
    """A word, and how near it is."""

    word: str
    similarity: float  # cosine


class StaticVectors:
    """Words and their vectors."""

    def __init__(self, name: str, words: list[str], vectors: NDArray[np.floating]) -> None:
        """name: for messages, as that of the file. vectors: (V, D)."""
        self.name, self.words = name, words
        self._unit = unit(vectors.astype(np.float32, copy=False))

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: k for k, word in enumerate(self.words)}

    def vector(self, word: str) -> NDArray[np.floating]:
        """(D,) at length 1. A word that is not there is looked for in lower case; else InputError."""
        vector: NDArray[np.floating] = self._unit[self._row(word)]
        return vector

    def neighbours(self, word: str, k: int = 10) -> list[NearWord]:
        """The nearest other words."""
        row = self._row(word)
        return self._nearest(self._unit[row], k, {row})

    def analogy(self, a: str, b: str, c: str, k: int = 10) -> list[NearWord]:
        """The words nearest to a - b + c, these three left out: what is to c as a is to b (Mikolov et al. 2013)."""
        rows = [self._row(word) for word in (a, b, c)]
        return self._nearest(unit(np.array([1, -1, 1], np.float32) @ self._unit[rows]), k, set(rows))

    def _row(self, word: str) -> int:
        for candidate in (word, word.lower()):
            if (row := self._rows.get(candidate)) is not None:
                return row
        near = ", ".join(difflib.get_close_matches(word.lower(), self.words, 5)) or "none"
        raise InputError(f"{self.name}: expected a word that has a vector, found {word!r}; words like it: {near}")

    def _nearest(self, vector: NDArray[np.floating], k: int, leave_out: set[int]) -> list[NearWord]:
        scores = self._unit @ vector  # (V,)
        scores[list(leave_out)] = -np.inf
        best = np.argsort(-scores, kind="stable")[: min(k, len(scores) - len(leave_out))]
        return [NearWord(self.words[row], float(scores[row])) for row in best]


def load_static(path: Path) -> StaticVectors:
    """All vectors of a GloVe or word2vec file, text or binary, plain or compressed."""
    words, vectors = read_vectors(path, (), frequent=sys.maxsize)
    return StaticVectors(path.name, words, vectors)


def train(
    corpus: Corpus, output: str | os.PathLike[str], *, algorithm: Algorithm = "cbow", dim: int = 100, window: int = 5,
    min_count: int = 5, negative: int = 5, sample: float = 1e-3, epochs: int = 5, seed: int = 1, workers: int = 1,
    lowercase: bool = False, overwrite: bool = False, progress: Callable[[Progress], None] | None = None,
) -> int:  # fmt: skip
    """Train word2vec (gensim's) and write its vectors: binary if the name ends in .bin, else text. Returns how many.

    sample: words that are more frequent than this part of the text are read less often; 0 is never.
    With one worker the same corpus and seed give the same file; more are faster, and never give the same twice.
    """
    target = Path(output)
    if algorithm not in get_args(Algorithm):
        raise ConfigError(f"--algorithm: expected {', '.join(get_args(Algorithm))}, found {algorithm!r}")
    if "-" in corpus.inputs:
        raise ConfigError("--corpus: expected files, as training reads them several times, found standard input")
    if not target.parent.is_dir() or target.is_dir():
        raise OutputError(f"{target}: expected a file in a folder that exists")
    if any(path != "-" and target.exists() and target.samefile(path) for path in corpus.inputs):
        raise OutputError(f"{target}: is the corpus; choose another name for the vectors")
    if target.exists() and not overwrite:
        raise OutputError(f"{target}: exists already; choose another name, or replace it with --overwrite")
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("training static vectors", "analysis") from None
    sentences = _Sentences(corpus, epochs + 1, lowercase, progress)
    model = Word2Vec(
        vector_size=dim, window=window, min_count=min_count, negative=negative, sample=sample,
        sg=int(algorithm == "skipgram"), seed=seed, workers=workers, epochs=epochs,
    )  # fmt: skip
    model.build_vocab(sentences)
    if not model.wv.index_to_key:
        raise InputError(
            f"{', '.join(corpus.inputs)}: expected words that occur {min_count} times, found none; lower --min-count"
        )
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    fresh = target.with_name(f".{target.name}.new-{secrets.token_hex(4)}")
    try:
        model.wv.save_word2vec_format(str(fresh), binary=target.suffix == ".bin")
        fresh.replace(target)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    return len(model.wv.index_to_key)


class _Sentences:
    """A corpus that is read several times: once for its words, then once an epoch."""

    def __init__(
        self, corpus: Corpus, passes: int, lowercase: bool, progress: Callable[[Progress], None] | None
    ) -> None:
        self._corpus, self._lowercase, self._progress = corpus, lowercase, progress
        total = corpus.bytes_total
        self._done = Progress(bytes_total=None if total is None else passes * total)

    def __iter__(self) -> Iterator[list[str]]:
        corpus, before = self._corpus, self._done
        for tokens in corpus:
            if self._progress is not None:
                self._done = Progress(
                    before.sentences + corpus.sentences, before.tokens + corpus.tokens,
                    bytes_read=corpus.bytes_read, bytes_total=before.bytes_total,
                )  # fmt: skip
                self._progress(self._done)
            yield [token.lower() for token in tokens] if self._lowercase else tokens
