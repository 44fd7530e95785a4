"""Drop-in replacement for simple_elmo: `ElmoModel` with padded arrays, warm-up and carried state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError
from elmokit.text.characters import BOS, EOS, UNK

Layers = Literal["average", "top", "all"]


class Vocabulary:
    """Words of the output layer by id, as `model.vocab` of simple_elmo."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self._ids = {word: k for k, word in enumerate(self._words)}

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    @property
    def size(self) -> int:
        """Number of words."""
        return len(self._words)

    @property
    def bos(self) -> int:
        """Id of the start mark of a sentence; -1 if there is none."""
        return self._ids.get(BOS, -1)

    @property
    def eos(self) -> int:
        """Id of the end mark of a sentence; -1 if there is none."""
        return self._ids.get(EOS, -1)

    @property
    def unk(self) -> int:
        """Id of the unknown word; -1 if there is none."""
        return self._ids.get(UNK, -1)

    def word_to_id(self, word: str) -> int:
        """Id of a word, or of the unknown word."""
        return self._ids.get(word, self.unk)

    def id_to_word(self, cur_id: int) -> str:
        """Word of an id."""
        return self._words[cur_id]


class ElmoModel:
    """ELMo with one call per list of sentences.

    Every call starts from zero state, reads the first batch twice (its "warm-up"), and carries the state on from batch
    to batch. Arrays are padded to the longest sentence with zeros.
    """

    def __init__(self) -> None:
        self.batch_size: int = 32
        self.max_chars: int | None = None
        self.vector_size: int | None = None
        self.n_layers: int | None = None
        self.vocab: Vocabulary | None = None  # None if the model has no vocabulary file
        self._elmo: Elmo | None = None
        self._default_layers: Layers = "average"

    def load(
        self,
        directory: str | os.PathLike[str],
        max_batch_size: int = 32,
        limit: int = 100,
        full: bool = False,
        *,
        top: bool = False,
    ) -> str:
        """Load a folder or a zip. `full` reads the output layer too, for `get_elmo_substitutes`.

        `limit` has no effect: every distinct word is encoded once anyway. `top` is an argument of early versions: the
        top layer is then the default of `layers`.
        """
        if isinstance(max_batch_size, bool):  # early versions: load(directory, top)
            raise ConfigError(f"max_batch_size: expected a number, found {max_batch_size}; pass top by name: top=True")
        elmo = Elmo.from_pretrained(directory, state="carry")
        if full:
            elmo.model.softmax()  # fail now rather than later
        chars = elmo.config.char_cnn
        self._elmo, self.batch_size = elmo, max_batch_size
        self.max_chars = None if chars is None else chars.max_characters
        self.vector_size, self.n_layers = elmo.config.vector_dim, elmo.config.n_vectors
        self.vocab = None if elmo.model.vocabulary is None else Vocabulary(elmo.model.vocabulary)
        self._default_layers = "top" if top else "average"
        return "The model is now loaded."

    def get_elmo_vectors(
        self, texts: Sequence[Sequence[str]], warmup: bool = True, layers: Layers | None = None, session: Any = None
    ) -> NDArray[np.float64]:
        """(sentences, longest, 2D), or (sentences, L + 1, longest, 2D) of all layers; zero at padding.

        layers: "average", "top" or "all"; default: the average, or the top layer after `load(..., top=True)`.
        """
        longest = max(map(len, texts), default=0)
        found = list(self._embed(texts, warmup, layers))
        shape = found[0].shape[:-2] if found else ()
        vectors = np.zeros((len(texts), *shape, longest, self._loaded().config.vector_dim))
        for row, array in enumerate(found):
            vectors[row, ..., : array.shape[-2], :] = array
        return vectors

    def get_elmo_vector_average(
        self, texts: Sequence[Sequence[str]], warmup: bool = True, layers: Layers | None = None, session: Any = None
    ) -> NDArray[np.float64]:
        """L2-normalized mean over the words of each sentence: (sentences, 2D), or (sentences, L + 1, 2D)."""
        means = []
        for array in self._embed(texts, warmup, layers):
            mean = array.sum(axis=-2, dtype=np.float64) / max(1, array.shape[-2])  # zero for empty sentences
            means.append(mean / (np.linalg.norm(mean) or 1.0))
        return np.array(means, dtype=np.float64)

    def get_elmo_substitutes(
        self, data: Sequence[str | Sequence[str]], topn: int = 3, nodelimiters: bool = True
    ) -> list[list[dict[str, Any]]]:
        """Words predicted by each direction at each position, from the context on its side, most likely first.

        data: sentences as strings of words separated by white space, or as lists of words. nodelimiters: give the
        sentence marks a probability of zero.
        For each word: `word`, and under `forward` and `backward` the lists `candidates` (ids), `candidate_words` and
        `logp`, which holds probabilities, as in simple_elmo.
        """
        elmo = self._loaded()
        vocabulary = self.vocab or Vocabulary(())
        exclude = [BOS, EOS] if nodelimiters else []
        marks = [(mark, 0.0) for mark in exclude if mark in vocabulary]

        def side(text: Sequence[str], direction: Literal["forward", "backward"]) -> dict[str, Any]:
            best = elmo.predict_next(text, direction=direction, top=topn, exclude=exclude)
            found = [(prediction.word, round(prediction.probability, 4)) for prediction in best]
            found += marks[: max(0, topn - len(found))]  # for topn=model.vocab.size
            return {
                "candidates": [vocabulary.word_to_id(word) for word, _ in found],
                "candidate_words": [word for word, _ in found],
                "logp": [probability for _, probability in found],
            }

        return [
            [
                {
                    "word": word,
                    "forward": side(sentence[:k], "forward"),
                    "backward": side(sentence[k + 1 :], "backward"),
                }
                for k, word in enumerate(sentence)
            ]
            for sentence in (text.split() if isinstance(text, str) else list(text) for text in data)
        ]

    def _embed(self, texts: Sequence[Sequence[str]], warmup: bool, layers: Layers | None) -> Iterator[NDArray[Any]]:
        elmo = self._loaded()
        layers = self._default_layers if layers is None else layers
        if layers not in get_args(Layers):
            raise ConfigError(f"layers: expected {', '.join(get_args(Layers))}, found {layers!r}")
        sentences = [[str(word) for word in text] for text in texts]
        elmo.reset_state()
        if warmup:
            for _ in elmo.embed(sentences[: self.batch_size], batch_size=self.batch_size):
                pass
        for sentence in elmo.embed(sentences, layers=layers, batch_size=self.batch_size):
            yield sentence.layers if layers == "all" else sentence.vectors

    def _loaded(self) -> Elmo:
        if self._elmo is None:
            raise ConfigError("ElmoModel: expected a loaded model, found none; call load first")
        return self._elmo


def divide_chunks(data: Sequence[Any], n: int) -> Iterator[Sequence[Any]]:
    """Split a sequence into chunks of n."""
    for start in range(0, len(data), n):
        yield data[start : start + n]
