"""Batches through the biLM: no work on padding, none twice, and the state that every sentence starts from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from numbers import Integral
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import State
from elmokit.embed.word_cache import WordCache
from elmokit.embed.words import WordReader
from elmokit.errors import ConfigError
from elmokit.nn.bilm import BiLM, BiLMOutput, BiLMState
from elmokit.nn.lstm import LstmState
from elmokit.nn.packing import Packing
from elmokit.text.batch import by_length

Layers = Literal["all", "top", "average"] | int | Sequence[float]

CACHE_BYTES = 64 * 2**20  # of word vectors: 32,000 words of the original model
CACHE_WORDS = 2**17  # at most: of a small model, a word's text takes more room than its vector
WINDOW_BYTES = 64 * 2**20  # of results that wait for their turn
BATCH_TOKENS = 6144  # at a time, if the cells of an LSTM are few
WIDE_BATCH_TOKENS, WIDE = 4608, 2048  # if they are more than so many: to stay in memory
WINDOW_BATCHES = 8  # that are put into order by length at a time

# Published weights were trained with a state that never was zero: a few sentences bring it to where they expect it.
WARM_UP = (
    "The history of the city goes back to the early part of the last century .",
    "He said that they would meet again on Monday , but nobody believed him .",
    "In the first half of the year , sales rose by 12 percent to $ 3.4 billion .",
    "What do you think about it ?",
)


class Engine:
    """One biLM, one word cache, one state policy."""

    def __init__(self, bilm: BiLM, reader: WordReader, *, state: State, cache_words: int | None = None) -> None:
        self.bilm, self.reader, self.state = bilm, reader, state
        self.device = bilm.device
        if cache_words is None:
            cache_words = max(1, min(CACHE_WORDS, CACHE_BYTES // (4 * bilm.config.lstm.projection_dim)))
        self.batch_tokens = WIDE_BATCH_TOKENS if bilm.config.lstm.dim > WIDE else BATCH_TOKENS
        self.cache = WordCache(encode=self._encode, capacity=cache_words)
        self.carried: BiLMState | None = None  # with state="carry": one row a sentence of the batch
        self._start: BiLMState | None = None  # otherwise: where every sentence starts, its first mark being read

    @torch.inference_mode()
    def _encode(self, words: list[str]) -> Tensor:
        ids = self.reader(words)
        characters, rows = (None if t is None else t.to(self.device) for t in (ids.characters, ids.words))
        vectors: Tensor = self.bilm.token_encoder(characters, rows)
        return vectors

    @torch.inference_mode()
    def independent(
        self, sentences: Sequence[Sequence[str]], layers: Layers, batch_tokens: int, batch_size: int | None = None
    ) -> list[NDArray[np.floating]]:
        """(layers, n, 2D) of every sentence, each from the same start; the order of work is by length."""
        results: list[NDArray[np.floating]] = [_nothing(self.bilm, layers)] * len(sentences)
        start = self._start_state()
        self._meet(sentences)
        for batch in by_length([len(s) for s in sentences], batch_tokens=batch_tokens, batch_size=batch_size):
            chosen = [sentences[k] for k in batch]
            packing = Packing.from_lengths([len(sentence) for sentence in chosen], self.device)
            forward, backward = ([s.expand(len(chosen)) for s in direction] for direction in start)
            combined = combine(self._run(chosen, packing, (forward, backward)), layers)
            for b, k in enumerate(batch):
                results[k] = combined[:, packing.rows(b).to(self.device)].cpu().numpy()
        return results

    @torch.inference_mode()
    def carry(self, sentences: Sequence[Sequence[str]], layers: Layers) -> list[NDArray[np.floating]]:
        """(layers, n, 2D) of one batch; row b starts where row b of the last batch ended, marks and all."""
        order = sorted(range(len(sentences)), key=lambda k: -len(sentences[k]))
        chosen = [[self.reader.begin, *sentences[k], self.reader.end] for k in order]
        packing = Packing.from_lengths([len(sentence) for sentence in chosen], self.device)
        self.carried = _with_rows(self.carried, self.bilm, len(sentences))
        rows = torch.tensor(order, device=self.device)
        forward, backward = ([LstmState(s.output[rows], s.cell[rows]) for s in way] for way in self.carried)
        output = self._run(chosen, packing, (forward, backward))
        for kept, after in zip(self.carried, output.state, strict=True):
            for old, new in zip(kept, after, strict=True):
                old.output[rows], old.cell[rows] = new.output, new.cell
        combined = combine(output, layers)
        results: list[NDArray[np.floating]] = [_nothing(self.bilm, layers)] * len(sentences)
        for b, k in enumerate(order):
            results[k] = combined[:, packing.rows(b)[1:-1].to(self.device)].cpu().numpy()
        return results

    def skip_independent(self, sentences: Sequence[Sequence[str]], batch_tokens: int, batch_size: int | None) -> None:
        """Leave the word cache as `independent` would: a fraction of its work."""
        self._start_state()
        self._meet(sentences)
        for batch in by_length([len(s) for s in sentences], batch_tokens=batch_tokens, batch_size=batch_size):
            self._look_up([sentences[k] for k in batch])

    def skip_carry(self, sentences: Sequence[Sequence[str]]) -> None:
        """Leave the word cache, though not the state, as `carry` would."""
        order = sorted(range(len(sentences)), key=lambda k: -len(sentences[k]))
        self._look_up([[self.reader.begin, *sentences[k], self.reader.end] for k in order])

    def _meet(self, sentences: Sequence[Sequence[str]]) -> None:
        """Encode the new words of all sentences together, which is faster than batch by batch, if they can be kept."""
        words = list(dict.fromkeys(chain.from_iterable(sentences)))
        if 0 < len(words) <= self.cache.capacity:
            self.cache.vectors(words)

    def _look_up(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, list[int]]:
        """(U, D) of the distinct words, and which of them every token is, sentence by sentence."""
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

    @torch.inference_mode()
    def _start_state(self) -> BiLMState:
        """One row: the forward layers after the begin mark, the backward layers after the end mark."""
        if self._start is None:
            before = self.bilm.zero_state(1)
            if self.state == "warm":
                for text in WARM_UP:
                    before = self._read([self.reader.begin, *text.split(), self.reader.end], before)
            self._start = (self._read([self.reader.begin], before)[0], self._read([self.reader.end], before)[1])
        return self._start

    def _read(self, words: list[str], state: BiLMState) -> BiLMState:
        return self._run([words], Packing.from_lengths([len(words)], self.device), state).state


def combine(output: BiLMOutput, layers: Layers) -> Tensor:
    """(1, N, 2D) of the combination, or (L + 1, N, 2D) of all layers."""
    if layers == "all":
        return output.layers()
    if layers == "top":
        return output.layer(output.n_layers - 1).unsqueeze(0)
    if isinstance(layers, int):
        return output.layer(layers).unsqueeze(0)
    weights = [1 / output.n_layers] * output.n_layers if layers == "average" else layers
    mixed = weights[0] * output.layer(0)  # type: ignore[operator]
    for j in range(1, output.n_layers):
        mixed.add_(output.layer(j), alpha=weights[j])  # type: ignore[arg-type]
    return mixed.unsqueeze(0)


def check_layers(layers: Layers, n_layers: int) -> Layers:
    """The choice, if the model has it; weights of any kind as a list of numbers."""
    if isinstance(layers, Integral):
        if not 0 <= layers < n_layers:
            raise ConfigError(f"layers: this model has 0 to {n_layers - 1}, found {layers}")
        return int(layers)
    if isinstance(layers, str) and layers in ("all", "top", "average"):
        return layers
    try:
        weights = [] if isinstance(layers, str) else [float(weight) for weight in layers]  # type: ignore[union-attr]
    except (TypeError, ValueError):
        weights = []
    if not weights:
        raise ConfigError(f"layers: expected all, top, average, a number or weights, found {layers!r}")
    if len(weights) != n_layers:
        raise ConfigError(f"layers: expected {n_layers} weights, one a layer, found {len(weights)}")
    if not np.isfinite(weights).all():
        raise ConfigError(f"layers: expected finite weights, found {weights}")
    return weights


def _nothing(bilm: BiLM, layers: Layers) -> NDArray[np.floating]:
    config = bilm.config
    return np.zeros((config.n_vectors if layers == "all" else 1, 0, config.vector_dim), dtype=np.float32)


def _with_rows(state: BiLMState | None, bilm: BiLM, n: int) -> BiLMState:
    """The carried state with at least n rows; new ones are zero."""
    if state is None:
        return bilm.zero_state(n)
    have = len(state[0][0].output)
    if have >= n:
        return state
    more = bilm.zero_state(n - have)
    forward, backward = (
        [LstmState(torch.cat((a.output, b.output)), torch.cat((a.cell, b.cell))) for a, b in zip(old, new, strict=True)]
        for old, new in zip(state, more, strict=True)
    )
    return forward, backward
