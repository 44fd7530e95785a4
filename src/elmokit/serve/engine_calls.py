"""Calls that an engine process answers, one method each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.search.neighbors import make_query, search
from elmokit.analysis.search.static_vectors import load_static
from elmokit.analysis.search.vector_index import VectorIndex
from elmokit.analysis.search.vocabulary_neighbors import VocabularyNeighbors
from elmokit.analysis.senses.word_similarity import compare
from elmokit.analysis.shared.char_filters import CharFilters
from elmokit.analysis.shared.map_projection import project
from elmokit.analysis.shared.occurrence import Occurrence
from elmokit.embed.elmo import Elmo
from elmokit.embed.layer_choice import check_layers, combine_layers
from elmokit.embed.sentence import EmbeddedSentence
from elmokit.errors import ConfigError, InputError
from elmokit.serve.pages import language
from elmokit.serve.settings import ServeSettings
from elmokit.tasks.runs.task_model import TaskModel

WARM_UP_SIZES = (1, 4, 16, 64)  # sentences per batch, before the first request
WARM_UP_TEXT = "A short sentence of some ten tokens , for the first batches ."

Array = NDArray[np.floating]


class EngineCalls:
    """A model with the task runs, index and static vectors of the server."""

    def __init__(self, settings: ServeSettings) -> None:
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        index = VectorIndex(settings.index) if settings.index is not None else None
        model = settings.model or (index.facts.model if index is not None else None)
        self.elmo = Elmo.from_pretrained(
            model,
            state=index.facts.state if index is not None else None,
            dtype=settings.dtype,
            device=settings.device,
        )
        if not self.elmo.independent:
            raise ConfigError(
                f'--model: expected a model whose sentences are independent, found state "{self.elmo.state}"'
            )
        self.tokenizer = settings.tokenizer or self.elmo.tokenizer
        if index is not None:
            index.require_model(self.elmo)
        self.index = index
        self.static = load_static(settings.vectors) if settings.vectors is not None else None
        self.tasks: dict[str, TaskModel] = {}
        shared = self.elmo  # until a run needs another, as all float32 taggers beside an int8 model do
        for name, folder in settings.tasks.items():
            run = TaskModel.from_pretrained(folder, device=settings.device or "cpu", bilm=shared)
            shared = run.bilm.frozen if run.bilm is not None and run.bilm.frozen is not None else shared
            self.tasks[name] = run
        self.vocabulary_neighbors = VocabularyNeighbors(self.elmo)
        self.char_filters = CharFilters(self.elmo.model) if self.elmo.config.char_cnn is not None else None
        self._calls: dict[str, Callable[..., Any]] = {
            name: getattr(self, name)
            for name in ("predict_next", "neighbors", "compare", "explain", "occurrences", "project", "task")
        }

    def warm_up(self) -> None:
        """Compute batches of several sizes, and read lazily loaded files now: they may be deleted later."""
        for size in WARM_UP_SIZES:
            list(self.elmo.embed([WARM_UP_TEXT.split()] * size))
        if self.elmo.model.has_softmax and self.elmo.model.vocabulary is not None:
            self.elmo.predict_next("The")
        self.vocabulary_neighbors.find("the", 1)
        if self.char_filters is not None:
            self.char_filters.explain("the")

    def info(self) -> dict[str, Any]:
        """Facts about the model, for `/info`."""
        model = self.elmo.model
        return {
            "model": {
                "name": model.short_name,
                "language": language(model.card),
                "parameters": model.parameter_count,
                "n_layers": self.elmo.config.n_vectors,
                "dim": self.elmo.config.vector_dim,
                "has_softmax": model.has_softmax,
                "has_characters": self.char_filters is not None,
                "fingerprint": model.fingerprint,
                "dtype": self.elmo.dtype,
                "state": self.elmo.state,
                "tokenizer": self.tokenizer,
            },
            "tasks": [{"name": name, "task": run.task.name} for name, run in self.tasks.items()],
            "index": self.index is not None,
            "vectors": self.static is not None,
            "umap": find_spec("umap") is not None,
        }

    def call(self, name: str, argument: dict[str, Any]) -> Any:
        """Compute one job that is not batched."""
        return self._calls[name](**argument)

    def embed(self, arguments: Sequence[dict[str, Any]]) -> list[Array]:
        """Embed the sentences of several jobs together, then select each job's layers, tokens and pooling.

        sentences: token lists. layers: as `Elmo.embed`. mix: (weights before the softmax, gamma), instead of layers.
        pooling: None for all tokens, (layers, tokens, D), else one vector per sentence, (sentences, D). select: the
        wanted tokens of each sentence. punctuation, normalize: for sentence vectors.
        """
        for argument in arguments:
            check_layers(argument["layers"], self.elmo.config.n_vectors)
            if argument["mix"] is not None:
                check_layers(argument["mix"][0], self.elmo.config.n_vectors)
        every = list(self.elmo.embed([tokens for argument in arguments for tokens in argument["sentences"]]))
        ends = accumulate((len(argument["sentences"]) for argument in arguments), initial=0)
        return [_shaped(every[a:b], argument) for (a, b), argument in zip(pairwise(ends), arguments, strict=True)]

    def predict_next(self, **argument: Any) -> list[dict[str, Any]]:
        """The likeliest words."""
        return [asdict(one) for one in self.elmo.predict_next(**argument, tokenizer=self.tokenizer)]

    def neighbors(self, word: str, top: int, text: str | None, same_word: bool) -> dict[str, Any]:
        """Static neighbors of a word; with `text`, the occurrences of the index nearest to the word in that text."""
        if text is not None:
            if self.index is None:
                raise InputError("text: this server has no corpus index; start it with --index")
            query = make_query(self.elmo, text, word, [self.index.facts.view], tokenizer=self.tokenizer)
            found = search(self.index, self.elmo, query, top, same_word=same_word).neighbors[0]
            return {
                "source": f"{self.index.facts.view.name}, {self.index.facts.tokens:,} tokens of the index",
                "neighbors": [
                    {
                        "word": near.occurrence.word,
                        "similarity": near.similarity,
                        "tokens": list(near.occurrence.tokens),
                        "position": near.occurrence.position,
                    }
                    for near in found
                ],
            }
        if self.static is not None:
            return {
                "source": self.static.name,
                "neighbors": [asdict(near) for near in self.static.neighbors(word, top)],
            }
        near_words = self.vocabulary_neighbors.find(word, top)
        count = len(self.vocabulary_neighbors.words)
        return {
            "source": f"layer 0, among the {count:,} most frequent words",
            "neighbors": [asdict(near) for near in near_words],
        }

    def compare(self, first: str, second: str, words: list[str]) -> dict[str, Any]:
        """A word in two sentences, layer by layer."""
        return compare(self.elmo, first, second, words, tokenizer=self.tokenizer).to_json()

    def explain(self, word: str) -> dict[str, Any]:
        """The character n-grams that won the max-pooling."""
        if self.char_filters is None:
            raise InputError("this model reads whole words: it has no character filters to explain")
        return self.char_filters.explain(word)

    def occurrences(self, word: str, limit: int) -> list[dict[str, Any]]:
        """The first sentences of the index that have a word, at most `limit`, each once."""
        if self.index is None:
            raise InputError("this server has no corpus index; start it with --index")
        found: dict[Occurrence, None] = {}
        for row in self.index.sentences.rows(word):
            if len(found) == limit:
                break
            found[self.index.sentences.occurrence(int(row))] = None
        return [{"tokens": list(one.tokens), "position": one.position} for one in found]

    def project(
        self, sentences: list[list[str]], select: list[int], weights: list[float], gamma: float, method: str
    ) -> list[list[float]]:
        """A map of one token per sentence, its layers mixed with given weights."""
        check_layers(weights, self.elmo.config.n_vectors)
        embedded = self.elmo.embed(sentences)
        layers = np.stack([one.layers[:, at] for one, at in zip(embedded, select, strict=True)], axis=1)
        points = project(gamma * np.tensordot(np.asarray(weights, dtype=np.float32), layers, 1), method)
        return [[float(x), float(y)] for x, y in points]

    def task(self, name: str, texts: list[str]) -> list[dict[str, Any]]:
        """Predictions of a task run."""
        return self.tasks[name].predict(texts)


def _shaped(sentences: list[EmbeddedSentence], argument: dict[str, Any]) -> Array:
    """The result of one job, from the sentences that belong to it."""
    mixed = [_mixed(sentence.layers, argument) for sentence in sentences]
    if argument["pooling"] is None:
        select = argument["select"] or [None] * len(mixed)
        parts = [part if at is None else part[:, at] for part, at in zip(mixed, select, strict=True)]
        return np.concatenate(parts, axis=1)
    pooled = [
        EmbeddedSentence(one.tokens, part).vector(argument["pooling"], punctuation=argument["punctuation"])
        for one, part in zip(sentences, mixed, strict=True)
    ]
    vectors = np.stack(pooled)
    if argument["normalize"]:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.where(lengths > 0, lengths, 1)  # a sentence without tokens stays zero
    return vectors


def _mixed(layers: Array, argument: dict[str, Any]) -> Array:
    """Requested layers: all of (L + 1, n, D), or one combination (1, n, D)."""
    choice: Any = argument["layers"]
    if argument["mix"] is not None:
        scores, gamma = np.asarray(argument["mix"][0], dtype=np.float64), argument["mix"][1]
        powers = np.exp(scores - scores.max())
        choice = list(gamma * powers / powers.sum())
    return combine_layers(layers, choice)
