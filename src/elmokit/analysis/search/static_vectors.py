"""Static word vectors: training, loading, nearest neighbors and analogies."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
from elmokit.analysis.search.vector_files import unit
from elmokit.disk.outputs import check_output
from elmokit.disk.whole import new_file
from elmokit.embed.embed_files import Progress
from elmokit.errors import ConfigError, InputError, MissingExtraError, OutputError
from elmokit.text.word_vectors import read_vectors

Algorithm = Literal["cbow", "skipgram"]


@dataclass(frozen=True)
class NearWord:
    """A word and its similarity."""

    word: str
    similarity: float  # cosine


class StaticVectors:
    """Words and their vectors."""

    def __init__(self, name: str, words: list[str], vectors: NDArray[np.floating]) -> None:
        """name: for messages, such as the file name. vectors: (V, D)."""
        self.name, self.words = name, words
        self._unit = unit(vectors.astype(np.float32, copy=False))

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: k for k, word in enumerate(self.words)}

    def vector(self, word: str) -> NDArray[np.floating]:
        """Unit vector (D,) of a word, or of its lower case if it is missing; otherwise InputError."""
        vector: NDArray[np.floating] = self._unit[self._row(word)]
        return vector

    def neighbors(self, word: str, k: int = 10) -> list[NearWord]:
        """Nearest neighbors, without the word itself."""
        row = self._row(word)
        return self._nearest(self._unit[row], k, {row})

    def analogy(self, a: str, b: str, c: str, k: int = 10) -> list[NearWord]:
        """Analogy: the words nearest to a - b + c, excluding these three (Mikolov et al. 2013)."""
        rows = [self._row(word) for word in (a, b, c)]
        return self._nearest(unit(np.array([1, -1, 1], np.float32) @ self._unit[rows]), k, set(rows))

    def _row(self, word: str) -> int:
        for candidate in (word, word.lower()):
            if (row := self._rows.get(candidate)) is not None:
                return row
        near = ", ".join(difflib.get_close_matches(word.lower(), self.words, 5)) or "none"
        raise InputError(f"{self.name}: expected a word that has a vector, found {word!r}; similar words: {near}")

    def _nearest(self, vector: NDArray[np.floating], k: int, leave_out: set[int]) -> list[NearWord]:
        scores = self._unit @ vector  # (V,)
        scores[list(leave_out)] = -np.inf
        best = np.argsort(-scores, kind="stable")[: min(k, len(scores) - len(leave_out))]
        return [NearWord(self.words[row], float(scores[row])) for row in best]


def load_static(path: Path) -> StaticVectors:
    """Load all vectors of a GloVe or word2vec file, text or binary, plain or compressed."""
    words, vectors = read_vectors(path, (), frequent=sys.maxsize)
    return StaticVectors(path.name, words, vectors)


def train(
    corpus: TokenizedCorpus,
    output: str | os.PathLike[str],
    *,
    algorithm: Algorithm = "cbow",
    dim: int = 100,
    window: int = 5,
    min_count: int = 5,
    negative: int = 5,
    sample: float = 1e-3,
    epochs: int = 5,
    seed: int = 1,
    workers: int = 1,
    lowercase: bool = False,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> int:
    """Train word2vec (gensim) and write the vectors: binary if the name ends in .bin, else text. Returns their number.

    sample: subsampling threshold of frequent words; 0 disables it. Output is reproducible for a given corpus and seed
    with one worker only; more workers are faster.
    """
    target = Path(output)
    if algorithm not in get_args(Algorithm):
        raise ConfigError(f"--algorithm: expected {', '.join(get_args(Algorithm))}, found {algorithm!r}")
    if "-" in corpus.inputs:
        raise ConfigError("--corpus: expected files, as training reads them several times, found standard input")
    if any(path != "-" and target.exists() and target.samefile(path) for path in corpus.inputs):
        raise OutputError(f"{target}: is the corpus; choose another name for the vectors")
    check_output(target, overwrite=overwrite)
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("training static vectors", "analysis") from None
    sentences = _Sentences(corpus, epochs + 1, lowercase, progress)
    model = Word2Vec(
        vector_size=dim,
        window=window,
        min_count=min_count,
        negative=negative,
        sample=sample,
        sg=int(algorithm == "skipgram"),
        seed=seed,
        workers=workers,
        epochs=epochs,
    )
    model.build_vocab(sentences)
    if not model.wv.index_to_key:
        raise InputError(
            f"{', '.join(corpus.inputs)}: expected words that occur {min_count} times, found none; lower --min-count"
        )
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    with new_file(target, replace=overwrite) as fresh:
        model.wv.save_word2vec_format(str(fresh), binary=target.suffix == ".bin")
    return len(model.wv.index_to_key)


class _Sentences:
    """Re-iterable corpus: one pass for the vocabulary, then one per epoch."""

    def __init__(
        self, corpus: TokenizedCorpus, passes: int, lowercase: bool, progress: Callable[[Progress], None] | None
    ) -> None:
        self._corpus, self._lowercase, self._progress = corpus, lowercase, progress
        total = corpus.bytes_total
        self._done = Progress(bytes_total=None if total is None else passes * total)

    def __iter__(self) -> Iterator[list[str]]:
        corpus, before = self._corpus, self._done
        for tokens in corpus:
            if self._progress is not None:
                self._done = Progress(
                    before.sentences + corpus.sentences,
                    before.tokens + corpus.tokens,
                    bytes_read=corpus.bytes_read,
                    bytes_total=before.bytes_total,
                )
                self._progress(self._done)
            yield [token.lower() for token in tokens] if self._lowercase else tokens
