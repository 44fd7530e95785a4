"""Nearest neighbors of a word in context (Peters et al. 2018, Table 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
from elmokit.analysis.search.vector_files import unit
from elmokit.analysis.search.vector_index import VectorIndex
from elmokit.analysis.shared.layers import View
from elmokit.analysis.shared.occurrence import Neighbor, Occurrence, find_word
from elmokit.embed.elmo import Elmo
from elmokit.embed.embed_files import Progress
from elmokit.embed.layer_choice import Layers
from elmokit.errors import ConfigError, InputError
from elmokit.nn.state_policy import INDEPENDENT_STATES


@dataclass(frozen=True)
class Query:
    """A word in context, with its vector in each view."""

    occurrence: Occurrence
    views: tuple[View, ...]
    vectors: NDArray[np.floating] = field(repr=False)  # (views, 2D), unit length


@dataclass(frozen=True)
class FoundNeighbors:
    """Nearest neighbors of a query."""

    query: Query
    neighbors: tuple[tuple[Neighbor, ...], ...]  # per view, best first
    sentences: int  # of the corpus
    tokens: int
    occurrences: int  # of the query's word in it, ignoring case

    def to_json(self) -> dict[str, Any]:
        """JSON-serializable form."""
        return {
            "sentence": list(self.query.occurrence.tokens),
            "position": self.query.occurrence.position,
            "word": self.query.occurrence.word,
            "corpus": {"sentences": self.sentences, "tokens": self.tokens, "occurrences": self.occurrences},
            "neighbors": {
                view.name: [
                    {
                        "similarity": near.similarity,
                        "word": near.occurrence.word,
                        "sentence": list(near.occurrence.tokens),
                        "position": near.occurrence.position,
                    }
                    for near in nearest
                ]
                for view, nearest in zip(self.query.views, self.neighbors, strict=True)
            },
        }


def make_query(
    elmo: Elmo, text: str, word: str, views: list[View], *, tokenizer: str = "words", substring: bool = False
) -> Query:
    """Embed a sentence and find the word in it; with `substring` it may be a part of a token."""
    (sentence,) = elmo.embed([text], tokenizer=tokenizer)
    occurrence = find_word(sentence.tokens, word, substring=substring)
    at_word = sentence.layers[:, occurrence.position]  # (L + 1, 2D)
    return Query(occurrence, tuple(views), unit(np.stack([view.of(at_word) for view in views])))


def search(index: VectorIndex, elmo: Elmo, query: Query, k: int = 5, *, same_word: bool = False) -> FoundNeighbors:
    """Search an index of the same model and the same single view."""
    index.require_model(elmo)
    facts = index.facts
    if query.views != (facts.view,):
        asked = ", ".join(view.name for view in query.views)
        raise ConfigError(f"--layer: {index.folder} is an index of {facts.view.name}, found {asked}")
    word = query.occurrence.word
    rows = index.sentences.rows(word)
    if same_word and not len(rows):
        raise _no_such_word(word, facts.tokens)
    nearest = index.search(query.vectors[0], k, among=rows if same_word else None, leave_out=query.occurrence)
    return FoundNeighbors(query, (tuple(nearest),), facts.sentences, facts.tokens, len(rows))


def scan(
    elmo: Elmo,
    query: Query,
    corpus: TokenizedCorpus,
    k: int = 5,
    *,
    same_word: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> FoundNeighbors:
    """Exact search by embedding the corpus on the fly, without storing vectors, in bounded memory."""
    if elmo.state not in INDEPENDENT_STATES:
        expected = " or ".join(INDEPENDENT_STATES)
        raise ConfigError(f"--state: expected {expected}, as a query has no sentence before it, found {elmo.state}")
    views = query.views
    one = views[0] if len(views) == 1 and views[0].minus is None else None
    nearest = [_Nearest(k) for _ in views]
    word, occurrences = query.occurrence.word.casefold(), 0
    sentences = tokens = 0
    layers: Layers = "all" if one is None else "average" if one.layer is None else one.layer
    for sentence in elmo.embed(corpus, layers=layers, progress=False):
        same = [k for k, token in enumerate(sentence.tokens) if token.casefold() == word]
        sentences, tokens, occurrences = sentences + 1, tokens + len(sentence.tokens), occurrences + len(same)
        if progress is not None:
            progress(Progress(sentences, tokens, 0, 0, corpus.bytes_read, corpus.bytes_total))
        places = np.array(same) if same_word else np.arange(len(sentence.tokens))
        key = tuple(sentence.tokens)
        if not len(places) or key == query.occurrence.tokens:
            continue
        for view, vector, kept in zip(views, query.vectors, nearest, strict=True):
            vectors = sentence.vectors if one else view.of(sentence.layers)
            kept.offer(key, places, unit(vectors[places]) @ vector)
    if not tokens:
        raise InputError(f"{', '.join(corpus.inputs)}: expected sentences, found none")
    if same_word and not occurrences:
        raise _no_such_word(query.occurrence.word, tokens)
    return FoundNeighbors(query, tuple(kept.best() for kept in nearest), sentences, tokens, occurrences)


class _Nearest:
    """The k nearest occurrences so far; identical sentences count once."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._kept: dict[Occurrence, float] = {}
        self._least = -np.inf  # similarity threshold

    def offer(self, tokens: tuple[str, ...], places: NDArray[np.intp], similarities: NDArray[np.floating]) -> None:
        """Add the tokens of a sentence that exceed the threshold."""
        for k in np.flatnonzero(similarities > self._least):
            self._kept.setdefault(Occurrence(tokens, int(places[k])), float(similarities[k]))
        if len(self._kept) >= 2 * self._k + 64:  # pruned occasionally, not at every insertion
            self._cut()

    def best(self) -> tuple[Neighbor, ...]:
        """The k nearest, best first; ties in order of arrival."""
        self._cut()
        return tuple(Neighbor(occurrence, similarity) for occurrence, similarity in self._kept.items())

    def _cut(self) -> None:
        best = sorted(self._kept.items(), key=lambda item: -item[1])[: self._k]
        self._kept = dict(best)
        if len(best) == self._k:
            self._least = best[-1][1]


def _no_such_word(word: str, tokens: int) -> InputError:
    return InputError(f"--same-word: expected {word!r} in the corpus, found none in {tokens:,} tokens")
