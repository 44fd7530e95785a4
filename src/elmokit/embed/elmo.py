"""Elmo: text to deep contextualized word vectors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from numbers import Integral
from os import PathLike
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.config import ModelConfig, State
from elmokit.embed.engine import WINDOW_BATCHES, WINDOW_BYTES, Engine
from elmokit.embed.layer_choice import Layers, check_layers
from elmokit.embed.portable import Dtype, PortableElmo, portable_model, to_portable
from elmokit.embed.predict import GAP, Direction, WordPrediction, predict_next
from elmokit.embed.sentence import EmbeddedSentence, Pool
from elmokit.embed.sharing import EngineLock, use_one_thread_in_fork
from elmokit.embed.stream import ProgressLine, SentenceStream, choose_progress
from elmokit.embed.texts import cosines, pooled
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, InputError
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.device import find_device
from elmokit.nn.softmax import Head
from elmokit.nn.state import BiLMState
from elmokit.text.batch import windows
from elmokit.text.token_check import ENOUGH, TokenCheck
from elmokit.text.tokenized import TokenizedSentence, tokenized
from elmokit.text.tokenizer import Tokenizer, get_tokenizer
from elmokit.weights import native
from elmokit.weights.locate import load as load_model
from elmokit.weights.model import Model

ModelPath = str | PathLike[str] | tuple[str | PathLike[str], ...]

__all__ = ["Dtype", "Elmo", "load", "load_model"]

log = logging.getLogger("elmokit.embed")  # what a user should know: text that looks as if it was not tokenized


class Elmo:
    """A biLM that turns sentences into vectors. It can be shared by threads, pickled and deep-copied.

    >>> elmo = Elmo.from_pretrained()
    >>> for sentence in elmo.embed(["I will buy you a present .", ["Live", "in", "the", "present"]]):
    ...     print(sentence.tokens, sentence.vectors.shape)
    """

    def __init__(
        self, model: Model, *, state: State | None = None, dtype: Dtype | None = None, device: str | None = None
    ) -> None:
        """Wrap a loaded model; its weights are converted in place to the fastest form for inference."""
        if not isinstance(model, Model):
            raise InputError(f"model: expected a loaded model, found {model!r:.60}; use Elmo.from_pretrained(path)")
        self.state: State = state or model.config.state
        self.dtype: Dtype = dtype or "float32"
        for name, value, choices in (("state", self.state, get_args(State)), ("dtype", self.dtype, get_args(Dtype))):
            if value not in choices:
                raise ConfigError(f"{name}: expected {', '.join(choices)}, found {value!r}")
        self.device = find_device("cpu" if device is None else device)
        if self.dtype == "int8" and self.device.type != "cpu":
            raise ConfigError(f"dtype: int8 is for CPUs, and the device is {self.device}; use float16")
        self.model = model
        with EngineLock():  # packing computes too
            bilm = model.bilm.eval().requires_grad_(False).to(self.device)
            if self.dtype == "int8":
                _ = model.fingerprint  # taken from exact weights, and kept
            if self.device.type == "cpu":
                optimize_(bilm, "int8" if self.dtype == "int8" else "float32")
            elif self.dtype == "float16":
                bilm.half()
        self._head: Head | None = None  # read when something is predicted
        self._check_tokens: TokenCheck | None = TokenCheck()  # None once it has seen enough
        self._engine = Engine(bilm, WordReader(model), state=self.state)

    @classmethod
    def from_pretrained(
        cls,
        model: ModelPath | None = None,
        *,
        state: State | None = None,
        dtype: Dtype | None = None,
        device: str | None = None,
    ) -> Elmo:
        """Load a model: the one inside the package, or a folder, a zip, a file, an (options, weights) pair.

        state: initial state of a sentence. "reset" is zero, "warm" one fixed state after a short warm-up text, and
            "carry" the final state of the previous sentence, as in the published code. By default that of the model.
        dtype: "float32"; "float16" gives half-precision vectors (computed in float32 on a CPU); "int8" computes with
            8-bit weights on a CPU: faster, with an error of 1 to 2%.
        """
        use_one_thread_in_fork()
        return cls(load_model(model), state=state, dtype=dtype, device=device)

    def save_pretrained(self, folder: str | PathLike[str], *, half: bool = False, overwrite: bool = False) -> None:
        """Write the model as a native folder: options, safetensors, vocabulary, card."""
        native.save(self.model, folder, half=half, overwrite=overwrite)

    def __reduce__(self) -> tuple[Callable[..., Elmo], tuple[PortableElmo, type[Elmo]]]:
        """For pickle and copy: the path of the model where it has one, else its weights."""
        parts = to_portable(
            self.model, state=self.state, dtype=self.dtype, device=str(self.device), carried=self.carried_state
        )
        return _from_portable, (parts, type(self))

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.model.config

    @property
    def tokenizer(self) -> str:
        """Default tokenizer of raw text: the one that the options of the model name, or "words"."""
        return self.config.default_tokenizer

    @property
    def independent(self) -> bool:
        """Whether a sentence's vectors depend on that sentence alone, as with every state but "carry"."""
        return self._engine.policy.independent

    def __repr__(self) -> str:
        files, lstm = self.model.files, self.config.lstm
        name = files[0].absolute().parent.name if files else "in memory"
        return (
            f"Elmo({name}, {lstm.n_layers}x{lstm.dim}/{lstm.projection_dim}, layers 0-{lstm.n_layers}, "
            f"state={self.state}, {self.dtype}, {self.device})"
        )

    def tokens(self, texts: str | Iterable[str], *, tokenizer: str | Tokenizer | None = None) -> list[Any]:
        """Tokenize texts as `embed` does: one list of tokens per text, or a single list for a string."""
        split = get_tokenizer(tokenizer or self.tokenizer)
        _check_list(texts)
        one = isinstance(texts, str)
        found = [sentence.tokens for sentence in tokenized([texts] if one else texts, split)]  # type: ignore[list-item]
        return found[0] if one else found

    def encode(
        self,
        texts: str | Iterable[str | Sequence[str]],
        *,
        pool: Pool = "mean",
        layers: Layers = "average",
        punctuation: bool = True,
        tokenizer: str | Tokenizer | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> NDArray[np.floating]:
        """One vector for each text: (n, 2D), or (2D,) of a single string; zeros for a text without tokens.

        texts: raw text, or lists of tokens. pool: "mean" or "max" over the tokens; `punctuation` says whether those
        without a letter or digit count. layers: as for `embed`; of "all", the average.
        progress: None shows a progress line on a terminal and in a notebook when it takes long.
        """
        one = isinstance(texts, str)
        stream = self.embed(
            [texts] if one else texts,  # type: ignore[list-item]
            layers=layers,
            tokenizer=tokenizer,
            batch_size=batch_size,
            progress=progress,
        )
        vectors = pooled(stream, pool, punctuation, self.config.vector_dim)
        return vectors[0] if one else vectors

    def similarity(
        self,
        first: str | Iterable[str | Sequence[str]] | NDArray[np.floating],
        second: str | Iterable[str | Sequence[str]] | NDArray[np.floating],
        **options: Any,
    ) -> Any:
        """Cosine similarities: a float for two strings, a matrix (n, m) for two lists, else one row or column of it.

        first, second: a text, a list of texts, or vectors from `encode`. options: those of `encode`.
        Texts are compared by pooled word vectors; to judge whether two sentences mean the same, models trained on
        sentence pairs are better.
        """
        a, b = (x if isinstance(x, np.ndarray) else self.encode(x, **options) for x in (first, second))
        return cosines(a, b)

    def embed(
        self,
        sentences: Iterable[str | Sequence[str]],
        *,
        layers: Layers = "all",
        tokenizer: str | Tokenizer | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> SentenceStream:
        """Embed any number of sentences, in order and in bounded memory: iterate over the result, or make a list of it.

        sentences: lists of tokens, or raw text for `tokenizer` ("words", "spaces", "spacy:de", or any callable; by
            default the model's own, which is "words" unless its options name another).
        progress: None shows a progress line on a terminal and in a notebook when it takes long.
        layers: "all"; or one combination: "top", "average", the number of a layer, or a weight for each layer.
        batch_size: sentences per batch. With state="carry" it affects the vectors, and is 1 by default.
        batch_tokens: tokens per batch, unless batch_size is given.
        threads: number of CPU threads, set for the whole process (`torch.set_num_threads`).
        """
        self._check(sentences, batch_size, batch_tokens, threads)
        layers = check_layers(layers, self.config.n_vectors)
        prepared = self._checked(tokenized(sentences, get_tokenizer(tokenizer or self.tokenizer)))
        parts = self._parts(prepared, layers, batch_size, batch_tokens)
        line = choose_progress(len(sentences) if isinstance(sentences, Sized) else None, progress)
        return SentenceStream(self._embed(parts, layers, batch_size, batch_tokens, line))

    def _checked(self, prepared: Iterable[TokenizedSentence]) -> Iterator[TokenizedSentence]:
        """Pass sentences through; the first ones that this object reads are checked, and a warning is logged once."""
        for sentence in prepared:
            if (check := self._check_tokens) is not None:
                check.add(sentence.tokens)
                if check.tokens >= ENOUGH:
                    self._warn()
                    self._check_tokens = None
            yield sentence
        self._warn()

    def _warn(self) -> None:
        check = self._check_tokens
        if check is not None and (warning := check.warning) is not None:
            self._check_tokens = None
            log.warning(warning)

    def skip(
        self,
        sentences: Iterable[str | Sequence[str]],
        *,
        layers: Layers = "all",
        tokenizer: str | Tokenizer | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        """Skip sentences that were embedded before, with the same options, in another process.

        Later vectors are then bit-identical to those of an uninterrupted run: the last bits of a word's vector depend
        on the batch in which it was first encoded, so the words are encoded again, which is a small part of the work.
        A carried state is not computed: restore it with `carried_state`.
        """
        self._check(sentences, batch_size, batch_tokens, None)
        layers = check_layers(layers, self.config.n_vectors)
        prepared = tokenized(sentences, get_tokenizer(tokenizer or self.tokenizer))
        for part in self._parts(prepared, layers, batch_size, batch_tokens):
            tokens = [sentence.tokens for sentence in part]
            self._engine.skip(tokens, batch_tokens or self._engine.batch_tokens, batch_size)

    def _parts(
        self, prepared: Iterable[TokenizedSentence], layers: Layers, batch_size: int | None, batch_tokens: int | None
    ) -> Iterator[list[TokenizedSentence]]:
        """Windows of sentences for the engine: one batch with carried state, else as many as may be buffered."""
        if not self.independent:
            return windows(prepared, lambda _: 1, batch_size or 1)
        n_vectors = self.config.n_vectors if layers == "all" else 1
        batch = batch_tokens or self._engine.batch_tokens
        # long enough to find sentences of similar lengths, short enough for memory and for an early first result
        window = min(WINDOW_BATCHES * batch, WINDOW_BYTES // (4 * n_vectors * self.config.vector_dim))
        return windows(prepared, lambda sentence: len(sentence.tokens), max(batch, window))

    def _embed(
        self,
        parts: Iterable[list[TokenizedSentence]],
        layers: Layers,
        batch_size: int | None,
        batch_tokens: int | None,
        line: ProgressLine | None,
    ) -> Iterator[EmbeddedSentence]:
        watch = None if line is None else line.add
        try:
            for part in parts:
                tokens = [sentence.tokens for sentence in part]
                size = batch_tokens or self._engine.batch_tokens
                yield from self._finish(part, self._engine.embed(tokens, layers, size, batch_size, watch))
        finally:
            if line is not None:
                line.clear()

    def _check(self, sentences: object, batch_size: int | None, batch_tokens: int | None, threads: int | None) -> None:
        if isinstance(sentences, str):
            raise InputError("embed expects a list of sentences, found one string: use [text]")
        _check_list(sentences)
        for name, value in (("batch_size", batch_size), ("batch_tokens", batch_tokens), ("threads", threads)):
            if value is not None and not (isinstance(value, Integral) and value >= 1):
                raise ConfigError(f"{name}: expected a positive integer, found {value!r}")
        if threads is not None:
            torch.set_num_threads(threads)

    def _finish(self, batch: list[TokenizedSentence], arrays: list[NDArray[np.floating]]) -> Iterator[EmbeddedSentence]:
        arrays.reverse()  # so that each can be returned and freed
        for sentence in batch:
            array = arrays.pop()
            if self.dtype == "float16":
                array = _half(array)
            yield EmbeddedSentence(sentence.tokens, array, sentence.text, sentence.offsets)

    def predict_next(
        self,
        text: str | Sequence[str],
        *,
        direction: Direction | None = None,
        top: int = 10,
        gap: str = GAP,
        tokenizer: str | Tokenizer | None = None,
        exclude: Sequence[str] | None = None,
    ) -> list[WordPrediction]:
        """The likeliest words after a text; before it ("backward"); or at its `gap`, from both sides ("gap").

        direction: by default "gap" where the text has one, as in "the ___ of the river", else "forward".

        Needs a model with a softmax and a vocabulary.
        """
        with self._engine.guard:
            if self._head is None:
                self._head = self.model.softmax().to(self.device)
            return predict_next(
                self.model,
                self._engine.reader,
                text,
                direction=direction,
                top=top,
                gap=gap,
                tokenizer=tokenizer or self.tokenizer,
                exclude=exclude,
                head=self._head,
            )

    @property
    def start_state(self) -> BiLMState:
        """State before the first token of every sentence, one row. Not defined for state="carry"."""
        return self._engine.start_state()

    def reset_state(self) -> None:
        """With state="carry": forget what was read."""
        with self._engine.guard:
            self._engine.policy.carried = None

    @property
    def carried_state(self) -> list[NDArray[np.floating]] | None:
        """With state="carry": output (B, D) and cell (B, C) of every forward, then every backward layer; or None."""
        with self._engine.guard:
            carried = self._engine.policy.carried
            return None if carried is None else [tensor.cpu().numpy().copy() for tensor in carried.tensors()]

    @carried_state.setter
    def carried_state(self, arrays: list[NDArray[np.floating]] | None) -> None:
        if arrays is None:
            self.reset_state()
            return
        lstm = self.config.lstm
        n_rows = len(arrays[0]) if arrays else 0
        expected = [(n_rows, lstm.projection_dim), (n_rows, lstm.dim)] * 2 * lstm.n_layers
        if (found := [np.shape(array) for array in arrays]) != expected:
            raise ConfigError(f"carried_state: expected arrays of shapes {expected}, found {found}")
        tensors = [torch.from_numpy(np.array(array)).to(self.device) for array in arrays]
        with self._engine.guard:
            self._engine.policy.carried = BiLMState.from_tensors(tensors)


def _from_portable(parts: PortableElmo, cls: type[Elmo]) -> Elmo:
    use_one_thread_in_fork()
    elmo = cls(portable_model(parts), state=parts.state, dtype=parts.dtype, device=parts.device)
    elmo.carried_state = parts.carried
    return elmo


def load(
    model: ModelPath | None = None,
    *,
    state: State | None = None,
    dtype: Dtype | None = None,
    device: str | None = None,
) -> Elmo:
    """Load a model: the short form of `Elmo.from_pretrained`."""
    return Elmo.from_pretrained(model, state=state, dtype=dtype, device=device)


def _half(array: NDArray[np.floating]) -> NDArray[np.floating]:
    try:
        with np.errstate(over="raise"):
            return array.astype(np.float16)
    except FloatingPointError:
        largest = np.abs(array).max()
        raise ConfigError(f"float16: expected vectors below 65504, found {largest:.3g}; use float32") from None


def _check_list(texts: object) -> None:
    if not isinstance(texts, Iterable):
        raise InputError(f"texts: expected a list of texts or of lists of tokens, found {texts!r}")
