"""Elmo: text to deep contextualized word vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.config import ModelConfig, State
from elmokit.embed.engine import WINDOW_BATCHES, WINDOW_BYTES, Engine, Layers, check_layers
from elmokit.embed.predict import Direction, Prediction, predict_next
from elmokit.embed.sentence import EmbeddedSentence
from elmokit.embed.words import WordReader
from elmokit.errors import ConfigError, InputError
from elmokit.nn.device import find_device
from elmokit.nn.lstm import LstmState
from elmokit.nn.softmax import Head
from elmokit.text.batch import windows
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize
from elmokit.weights import native
from elmokit.weights.locate import load as load_model
from elmokit.weights.model import Model

Dtype = Literal["float32", "float16", "int8"]
ModelPath = str | PathLike[str] | tuple[str | PathLike[str], ...]

__all__ = ["Dtype", "Elmo", "load_model"]


class Elmo:
    """A biLM that turns sentences into vectors.

    >>> elmo = Elmo.from_pretrained()
    >>> for sentence in elmo.embed(["I will buy you a present .", ["Live", "in", "the", "present"]]):
    ...     print(sentence.tokens, sentence.vectors.shape)
    """

    def __init__(
        self, model: Model, *, state: State | None = None, dtype: Dtype | None = None, device: str | None = None
    ) -> None:
        """Take over a loaded model: its weights are brought into the form that infers fastest."""
        self.state: State = state or model.config.state
        self.dtype: Dtype = dtype or "float32"
        for name, value, choices in (("state", self.state, get_args(State)), ("dtype", self.dtype, get_args(Dtype))):
            if value not in choices:
                raise ConfigError(f"{name}: expected {', '.join(choices)}, found {value!r}")
        self.device = find_device(device or "cpu")
        if self.dtype == "int8" and self.device.type != "cpu":
            raise ConfigError(f"dtype: int8 is for CPUs, and the device is {self.device}; use float16")
        self.model = model
        bilm = model.bilm.eval().requires_grad_(False).to(self.device)
        if self.dtype == "int8":
            _ = model.fingerprint  # taken from exact weights, and kept
        if self.device.type == "cpu":
            bilm.pack_("int8" if self.dtype == "int8" else "float32")
        elif self.dtype == "float16":
            bilm.half()
        self._head: Head | None = None  # read when something is predicted
        self._engine = Engine(bilm, WordReader(model), state=self.state)

    @classmethod
    def from_pretrained(
        cls, model: ModelPath | None = None, *, state: State | None = None, dtype: Dtype | None = None,
        device: str | None = None,
    ) -> Elmo:  # fmt: skip
        """Load a model: the one inside the package, or a folder, a zip, a file, an (options, weights) pair.

        state: what a sentence starts from. "reset" is zero, "warm" one fixed state after a short warm-up text, and
            "carry" the end of the sentence before it, as the published code did. By default what suits the model.
        dtype: "float32"; "float16" gives half-precision vectors (computed in float32 on a CPU); "int8" computes with
            8-bit weights on a CPU: faster, and off by a percent or two.
        """
        return cls(load_model(model), state=state, dtype=dtype, device=device)

    def save_pretrained(self, folder: str | PathLike[str], *, half: bool = False, overwrite: bool = False) -> None:
        """Write the model as a native folder: options, safetensors, vocabulary, card."""
        native.save(self.model, folder, half=half, overwrite=overwrite)

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.model.config

    def embed(
        self, sentences: Iterable[str | Sequence[str]], *, layers: Layers = "all", tokenizer: str | Tokenizer = "words",
        batch_size: int | None = None, batch_tokens: int | None = None, threads: int | None = None,
    ) -> Iterator[EmbeddedSentence]:  # fmt: skip
        """Embed any number of sentences, in order and in bounded memory.

        sentences: lists of tokens, or raw text for `tokenizer` ("words", "spaces", "spacy:de", or any callable).
        layers: "all"; or one combination: "top", "average", the number of a layer, or a weight for each layer.
        batch_size: sentences a batch. With state="carry" it is part of the meaning, and 1 by default.
        batch_tokens: tokens a batch, unless batch_size is given. threads: of the CPU, for this process from now on.
        """
        self._check(sentences, batch_size, batch_tokens, threads)
        layers = check_layers(layers, self.config.n_vectors)
        parts = self._parts(_prepare(sentences, get_tokenizer(tokenizer)), layers, batch_size, batch_tokens)
        return self._embed(parts, layers, batch_size, batch_tokens)

    def skip(
        self, sentences: Iterable[str | Sequence[str]], *, layers: Layers = "all", tokenizer: str | Tokenizer = "words",
        batch_size: int | None = None, batch_tokens: int | None = None,
    ) -> None:  # fmt: skip
        """Pass over sentences that were embedded before, with the same options, in another process.

        What comes after is then the same to the last bit: a word's vector is rounded by the company in which it was
        first encoded, so the words are encoded again, which is a small part of the work. A carried state is not made:
        put it back with `carried_state`.
        """
        self._check(sentences, batch_size, batch_tokens, None)
        layers = check_layers(layers, self.config.n_vectors)
        for part in self._parts(_prepare(sentences, get_tokenizer(tokenizer)), layers, batch_size, batch_tokens):
            tokens = [sentence.tokens for sentence in part]
            if self.state == "carry":
                self._engine.skip_carry(tokens)
            else:
                self._engine.skip_independent(tokens, batch_tokens or self._engine.batch_tokens, batch_size)

    def _parts(
        self, prepared: Iterable[_Prepared], layers: Layers, batch_size: int | None, batch_tokens: int | None
    ) -> Iterator[list[_Prepared]]:
        """What the engine gets at a time: with carried state one batch, else as much as can wait for its turn."""
        if self.state == "carry":
            return windows(prepared, lambda _: 1, batch_size or 1)
        n_vectors = self.config.n_vectors if layers == "all" else 1
        batch = batch_tokens or self._engine.batch_tokens
        # long enough to find sentences of like lengths, short enough for memory and for who waits for the first result
        window = min(WINDOW_BATCHES * batch, WINDOW_BYTES // (4 * n_vectors * self.config.vector_dim))
        return windows(prepared, lambda sentence: len(sentence.tokens), max(batch, window))

    def _embed(
        self, parts: Iterable[list[_Prepared]], layers: Layers, batch_size: int | None, batch_tokens: int | None
    ) -> Iterator[EmbeddedSentence]:
        for part in parts:
            tokens = [sentence.tokens for sentence in part]
            if self.state == "carry":
                arrays = self._engine.carry(tokens, layers)
            else:
                arrays = self._engine.independent(tokens, layers, batch_tokens or self._engine.batch_tokens, batch_size)
            yield from self._finish(part, arrays)

    def _check(
        self, sentences: object, batch_size: int | None, batch_tokens: int | None, threads: int | None
    ) -> None:  # fmt: skip
        if isinstance(sentences, str):
            raise InputError("embed expects a list of sentences, found one string: use [text]")
        for name, value in (("batch_size", batch_size), ("batch_tokens", batch_tokens), ("threads", threads)):
            if value is not None and not (isinstance(value, Integral) and value >= 1):
                raise ConfigError(f"{name}: expected a positive integer, found {value!r}")
        if threads is not None:
            torch.set_num_threads(threads)

    def _finish(self, batch: list[_Prepared], arrays: list[NDArray[np.floating]]) -> Iterator[EmbeddedSentence]:
        arrays.reverse()  # so that each can be handed over and forgotten
        for sentence in batch:
            array = arrays.pop()
            if self.dtype == "float16":
                array = _half(array)
            yield EmbeddedSentence(sentence.tokens, array, sentence.text, sentence.offsets)

    def predict_next(
        self, text: str | Sequence[str], *, direction: Direction = "forward", top: int = 10, gap: str = "___",
        tokenizer: str | Tokenizer = "words", exclude: Sequence[str] | None = None,
    ) -> list[Prediction]:  # fmt: skip
        """The likeliest words after a text; before it ("backward"); or at its `gap`, from both sides ("gap").

        Needs a model with a softmax and a vocabulary.
        """
        if self._head is None:
            self._head = self.model.softmax().to(self.device)
        return predict_next(
            self.model, self._engine.reader, text, direction=direction, top=top, gap=gap, tokenizer=tokenizer,
            exclude=exclude, head=self._head,
        )  # fmt: skip

    def reset_state(self) -> None:
        """With state="carry": forget what was read."""
        self._engine.carried = None

    @property
    def carried_state(self) -> list[NDArray[np.floating]] | None:
        """With state="carry": output (B, D) and cell (B, C) of every forward, then every backward layer; or None."""
        carried = self._engine.carried
        if carried is None:
            return None
        return [array.cpu().numpy().copy() for direction in carried for s in direction for array in (s.output, s.cell)]

    @carried_state.setter
    def carried_state(self, arrays: list[NDArray[np.floating]] | None) -> None:
        if arrays is None:
            self.reset_state()
            return
        lstm, n_layers = self.config.lstm, self.config.lstm.n_layers
        n_rows = len(arrays[0]) if arrays else 0
        expected = [(n_rows, lstm.projection_dim), (n_rows, lstm.dim)] * 2 * n_layers
        if (found := [np.shape(array) for array in arrays]) != expected:
            raise ConfigError(f"carried_state: expected arrays of shapes {expected}, found {found}")
        tensors = [torch.from_numpy(np.array(array)).to(self.device) for array in arrays]
        states = [LstmState(output, cell) for output, cell in zip(tensors[::2], tensors[1::2], strict=True)]
        self._engine.carried = (states[:n_layers], states[n_layers:])


def _half(array: NDArray[np.floating]) -> NDArray[np.floating]:
    try:
        with np.errstate(over="raise"):
            return array.astype(np.float16)
    except FloatingPointError:
        largest = np.abs(array).max()
        raise ConfigError(f"float16: expected vectors below 65504, found {largest:.3g}; use float32") from None


@dataclass
class _Prepared:
    """A sentence as tokens, with what is known of its text."""

    tokens: list[str]
    text: str | None = None
    offsets: list[tuple[int, int]] | None = None


def _prepare(sentences: Iterable[str | Sequence[str]], tokenizer: Tokenizer) -> Iterator[_Prepared]:
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            tokens, offsets = tokenize(sentence, tokenizer)
            yield _Prepared(tokens, sentence, offsets)
        elif isinstance(sentence, Sequence) and all(isinstance(token, str) for token in sentence):
            yield _Prepared(list(sentence))
        else:
            raise InputError(f"sentence {number}: expected text or a list of tokens, found {str(sentence)[:40]!r}")
