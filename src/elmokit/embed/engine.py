"""Inference engine: batches, word cache and state policy around a biLM."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import State
from elmokit.embed.layer_choice import Layers, resolve_layers
from elmokit.embed.sharing import EngineLock
from elmokit.embed.word_cache import WordCache
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError
from elmokit.nn.bilm import BiLM, BiLMOutput
from elmokit.nn.packing import Packing
from elmokit.nn.state import BiLMState
from elmokit.nn.state_policy import INDEPENDENT_STATES, POLICIES
from elmokit.text.batch import by_length

CACHE_BYTES = 64 * 2**20  # of word vectors: 32,000 words of the original model
CACHE_WORDS = 2**17  # maximum number of words: in a small model, a word's text takes more memory than its vector
WINDOW_BYTES = 64 * 2**20  # of results buffered until they can be returned in order
BATCH_TOKENS = 6144  # tokens per batch
WIDE_BATCH_TOKENS, WIDE = 4608, 2048  # tokens per batch of models with more than WIDE LSTM cells, to bound memory
WINDOW_BATCHES = 8  # number of batches whose sentences are sorted by length together

# Published weights were trained with a state that was never zero: a few sentences bring it into the usual range.
WARM_UP = (
    "The history of the city goes back to the early part of the last century .",
    "He said that they would meet again on Monday , but nobody believed him .",
    "In the first half of the year , sales rose by 12 percent to $ 3.4 billion .",
    "What do you think about it ?",
)


Method = TypeVar("Method", bound=Callable[..., Any])


def _guarded(method: Method) -> Method:
    """Let one thread at a time compute: the word cache and the network's buffers are shared."""

    @functools.wraps(method)
    def alone(self: Engine, *args: Any, **kwargs: Any) -> Any:
        with self.guard, torch.inference_mode():
            return method(self, *args, **kwargs)

    return alone  # type: ignore[return-value]


Watch = Callable[[int, int], None]  # receives the number of sentences and of tokens of a batch


def _ignore(sentences: int, tokens: int) -> None:
    """Watch nothing."""


class Engine:
    """One biLM, one word cache, one state policy; may be used by several threads, which take turns."""

    def __init__(self, bilm: BiLM, reader: WordReader, *, state: State, cache_words: int | None = None) -> None:
        self.bilm, self.reader = bilm, reader
        self.policy = POLICIES[state](bilm, self._read_warm_up)
        self.guard = EngineLock()
        self.device = bilm.device
        if cache_words is None:
            cache_words = max(1, min(CACHE_WORDS, CACHE_BYTES // (4 * bilm.config.lstm.projection_dim)))
        self.batch_tokens = WIDE_BATCH_TOKENS if bilm.config.lstm.dim > WIDE else BATCH_TOKENS
        self.cache = WordCache(encode=self._encode, capacity=cache_words)
        self._start: BiLMState | None = None  # of independent sentences: state after the first sentence mark

    @torch.inference_mode()
    def _encode(self, words: list[str]) -> Tensor:
        ids = self.reader(words)
        characters, rows = (None if t is None else t.to(self.device) for t in (ids.characters, ids.words))
        vectors: Tensor = self.bilm.token_encoder(characters, rows)
        return vectors

    @_guarded
    def embed(
        self,
        sentences: Sequence[Sequence[str]],
        layers: Layers,
        batch_tokens: int,
        batch_size: int | None = None,
        watch: Watch | None = None,
    ) -> list[NDArray[np.floating]]:
        """(layers, n, 2D) of every sentence. If they are not independent, they are one batch.

        watch: called with the number of sentences and of tokens of each batch that was computed.
        """
        watch = watch or _ignore
        if self.policy.independent:
            return self._embed_independent(sentences, layers, batch_tokens, batch_size, watch)
        arrays = self._embed_batch(sentences, layers)
        watch(len(sentences), sum(map(len, sentences)))
        return arrays

    @_guarded
    def skip(self, sentences: Sequence[Sequence[str]], batch_tokens: int, batch_size: int | None) -> None:
        """Update the word cache as `embed` would, but not the state, at a fraction of the cost."""
        if self.policy.independent:
            self._skip_independent(sentences, batch_tokens, batch_size)
        else:
            self._look_up([self._with_marks(sentences[k]) for k in _longest_first(sentences)])

    def _embed_independent(
        self,
        sentences: Sequence[Sequence[str]],
        layers: Layers,
        batch_tokens: int,
        batch_size: int | None,
        watch: Watch,
    ) -> list[NDArray[np.floating]]:
        """All sentences start from the same state, and are batched by length."""
        results: list[NDArray[np.floating]] = [_nothing(self.bilm, layers)] * len(sentences)
        start = self._start_state()
        self._encode_new_words(sentences)
        watch(sum(not sentence for sentence in sentences), 0)  # empty ones are in no batch
        for batch in by_length([len(s) for s in sentences], batch_tokens=batch_tokens, batch_size=batch_size):
            chosen = [sentences[k] for k in batch]
            packing = Packing.from_lengths([len(sentence) for sentence in chosen], self.device)
            combined = combine(self._run(chosen, packing, start.expand(len(chosen))), layers)
            for b, k in enumerate(batch):
                results[k] = combined[:, packing.rows(b).to(self.device)].cpu().numpy()
            watch(len(chosen), packing.n_tokens)
        return results

    def _embed_batch(self, sentences: Sequence[Sequence[str]], layers: Layers) -> list[NDArray[np.floating]]:
        """One batch, sentence marks included; the policy gives the initial state of each row."""
        order = _longest_first(sentences)
        chosen = [self._with_marks(sentences[k]) for k in order]
        packing = Packing.from_lengths([len(sentence) for sentence in chosen], self.device)
        rows = torch.tensor(order, device=self.device)
        output = self._run(chosen, packing, self.policy.start(rows))
        self.policy.end(rows, output.state)
        combined = combine(output, layers)
        results: list[NDArray[np.floating]] = [_nothing(self.bilm, layers)] * len(sentences)
        for b, k in enumerate(order):
            results[k] = combined[:, packing.rows(b)[1:-1].to(self.device)].cpu().numpy()
        return results

    def _skip_independent(self, sentences: Sequence[Sequence[str]], batch_tokens: int, batch_size: int | None) -> None:
        self._start_state()
        self._encode_new_words(sentences)
        for batch in by_length([len(s) for s in sentences], batch_tokens=batch_tokens, batch_size=batch_size):
            self._look_up([sentences[k] for k in batch])

    def _encode_new_words(self, sentences: Sequence[Sequence[str]]) -> None:
        """Encode the new words of all sentences together, which is faster than batch by batch, if they can be kept."""
        words = list(dict.fromkeys(chain.from_iterable(sentences)))
        if 0 < len(words) <= self.cache.capacity:
            self.cache.vectors(words)

    def _look_up(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, list[int]]:
        """(U, D) of the distinct words, and the index into them of every token, sentence by sentence."""
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(word, len(numbers)) for sentence in sentences for word in sentence]
        return self.cache.vectors(list(numbers)), flat

    def _run(self, sentences: Sequence[Sequence[str]], packing: Packing, state: BiLMState) -> BiLMOutput:
        vectors, flat = self._look_up(sentences)
        first = np.cumsum((0, *packing.lengths[:-1]))  # where each sentence begins in `flat`
        at = torch.from_numpy(first).to(self.device)[packing.sentence] + packing.time
        index = torch.tensor(flat, device=self.device)[at]  # (N,)
        output: BiLMOutput = self.bilm(vectors, index, packing, state)
        return output

    @_guarded
    def start_state(self) -> BiLMState:
        """State before the first token of every sentence, one row, where sentences are independent."""
        if not self.policy.independent:
            raise ConfigError(f"state: expected {' or '.join(INDEPENDENT_STATES)} for one start state, found another")
        return self._start_state()

    def _start_state(self) -> BiLMState:
        """One row: the forward layers after the start mark, the backward layers after the end mark."""
        if self._start is None:
            before = self.policy.start(torch.zeros(1, dtype=torch.long, device=self.device))
            begun, ended = self._read([self.reader.begin], before), self._read([self.reader.end], before)
            self._start = BiLMState(begun.forward, ended.backward)
        return self._start

    def _read_warm_up(self, state: BiLMState) -> BiLMState:
        for text in WARM_UP:
            state = self._read(self._with_marks(text.split()), state)
        return state

    def _with_marks(self, words: Sequence[str]) -> list[str]:
        return [self.reader.begin, *words, self.reader.end]

    def _read(self, words: list[str], state: BiLMState) -> BiLMState:
        return self._run([words], Packing.from_lengths([len(words)], self.device), state).state


def combine(output: BiLMOutput, layers: Layers) -> Tensor:
    """(1, N, 2D) of the combination, or (L + 1, N, 2D) of all layers."""
    chosen = resolve_layers(layers, output.n_vectors)
    if chosen is None:
        return output.layers()
    if isinstance(chosen, int):
        return output.layer(chosen).unsqueeze(0)
    mixed = chosen[0] * output.layer(0)
    for j in range(1, output.n_vectors):
        mixed.add_(output.layer(j), alpha=chosen[j])
    return mixed.unsqueeze(0)


def _nothing(bilm: BiLM, layers: Layers) -> NDArray[np.floating]:
    config = bilm.config
    return np.zeros((config.n_vectors if layers == "all" else 1, 0, config.vector_dim), dtype=np.float32)


def _longest_first(sentences: Sequence[Sequence[str]]) -> list[int]:
    return sorted(range(len(sentences)), key=lambda k: -len(sentences[k]))
