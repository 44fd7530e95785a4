"""Nearest-neighbor index over the token vectors of a corpus: built once, then searched in milliseconds.

A folder with `index.json` (metadata), FAISS files of vectors, and the sentences; all but the first are memory-mapped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.search.sentence_store import SentenceStore, SentenceWriter
from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
from elmokit.analysis.search.vector_files import VectorFiles, VectorWriter, load_faiss, unit
from elmokit.analysis.shared.layers import BLOCK_TOKENS, View
from elmokit.analysis.shared.occurrence import Neighbor, Occurrence
from elmokit.config import State
from elmokit.disk.json_file import from_json, read_json
from elmokit.disk.whole import new_folder
from elmokit.embed.elmo import Elmo
from elmokit.embed.embed_files import Progress
from elmokit.embed.sentence import EmbeddedSentence
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.nn.state_policy import INDEPENDENT_STATES

_FORMAT = "elmokit index 1"
_FACTS = "index.json"


@dataclass(frozen=True)
class IndexFacts:
    """Metadata of an index."""

    model: str | None  # as named when the index was built; None is the packaged model
    fingerprint: str  # of that model; vectors of other models are not comparable
    state: State  # state policy
    layer: int | None  # None is the average of all layers
    corpus: tuple[str, ...]  # input files, as named
    sentences: int
    tokens: int
    dim: int
    approximate: bool
    probes: int = 1  # of an approximate index: IVF lists searched per shard
    recall: float = 1.0  # recall at ten, measured when the index was built

    @property
    def view(self) -> View:
        """The layer view of the index."""
        return View("average", None) if self.layer is None else View(f"layer {self.layer}", self.layer)


def build_index(
    elmo: Elmo,
    corpus: TokenizedCorpus,
    folder: str | os.PathLike[str],
    *,
    view: View,
    model: str | None = None,
    approximate: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> IndexFacts:
    """Embed a corpus and build an index in a new folder, which appears when complete, in bounded memory.

    model: name or path by which a search loads the model; None for the packaged one.
    """
    load_faiss()  # fail now rather than after an hour
    if elmo.state not in INDEPENDENT_STATES:
        expected = " or ".join(INDEPENDENT_STATES)
        raise ConfigError(f"--state: expected {expected}, as a query has no sentence before it, found {elmo.state}")
    fingerprint, dim = elmo.model.fingerprint, elmo.config.vector_dim
    sentences = SentenceWriter()
    with new_folder(folder) as fresh:
        vectors = VectorWriter(fresh, dim, approximate=approximate)
        stream = elmo.embed(corpus, layers="average" if view.layer is None else view.layer, progress=False)
        for block in _blocks(stream):
            for sentence in block:
                sentences.add(sentence.tokens)
            vectors.add(np.concatenate([sentence.vectors for sentence in block]))
            if progress is not None:
                progress(Progress(*sentences.progress, 0, 0, corpus.bytes_read, corpus.bytes_total))
        if not vectors.count:
            raise InputError(f"{', '.join(corpus.inputs)}: expected sentences, found none")
        rows, queries = vectors.finish()
        sentences.write(fresh)
        facts = IndexFacts(
            model,
            fingerprint,
            elmo.state,
            view.layer,
            tuple(corpus.inputs),
            corpus.sentences,
            corpus.tokens,
            dim,
            approximate,
        )
        if approximate:
            files = VectorFiles(fresh, count=facts.tokens, dim=dim, approximate=True)
            recall = files.tune(rows, queries)
            facts = replace(facts, probes=files.probes, recall=recall)
        text = json.dumps({"format": _FORMAT, **asdict(facts)}, ensure_ascii=False, indent=1)
        (fresh / _FACTS).write_text(text + "\n", encoding="utf-8")
    return facts


def _blocks(stream: Iterator[EmbeddedSentence]) -> Iterator[list[EmbeddedSentence]]:
    """Group sentences into blocks of a few thousand tokens, to amortize the cost per block."""
    block: list[EmbeddedSentence] = []
    count = 0
    for sentence in stream:
        block.append(sentence)
        count += len(sentence.tokens)
        if count >= BLOCK_TOKENS:
            yield block
            block, count = [], 0
    if block:
        yield block


class VectorIndex:
    """An open index; only the pages that a search touches are read."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.facts = _read_facts(self.folder)
        facts = self.facts
        self.sentences = SentenceStore(self.folder)
        if len(self.sentences) != facts.tokens:
            raise FormatError(f"{folder}: expected {facts.tokens} tokens, found {len(self.sentences)}; rebuild it")
        self._files = VectorFiles(
            self.folder, count=facts.tokens, dim=facts.dim, approximate=facts.approximate, probes=facts.probes
        )

    def require_model(self, elmo: Elmo) -> None:
        """Raise if the model or its state policy differs from the index."""
        facts, found = self.facts, elmo.model.fingerprint
        if found != facts.fingerprint:
            raise InputError(
                f"{self.folder}: is of another model: expected {facts.model or 'the packaged model'} with fingerprint "
                f"{facts.fingerprint[:12]}, found {found[:12]}; name the model of the index, or rebuild it"
            )
        if not 0 <= (facts.view.layer or 0) < elmo.config.n_vectors:
            raise FormatError(f"{self.folder}/index.json: expected a layer of the model, found {facts.view.layer}")
        if elmo.state != facts.state:
            raise InputError(
                f"{self.folder}: expected state {facts.state}, as the index was built with, found {elmo.state}"
            )

    def search(
        self,
        vector: NDArray[np.floating],
        k: int = 5,
        *,
        among: NDArray[np.int64] | None = None,
        leave_out: Occurrence | None = None,
    ) -> list[Neighbor]:
        """The k nearest occurrences of a vector (D,), best first; identical sentences count once.

        among: search only these rows, such as `sentences.rows(word)`; always exact, even with an approximate index.
        leave_out: exclude sentences with the same tokens as this one.
        """
        limit = self.facts.tokens if among is None else len(among)
        found: dict[Occurrence, Neighbor] = {}
        wanted = 2 * k + 8
        while limit:
            wanted = min(wanted, limit)
            scores, rows = self._nearest(vector, wanted, among)
            for score, row in zip(scores.tolist(), rows.tolist(), strict=True):
                occurrence = self.sentences.occurrence(row)
                if leave_out is None or occurrence.tokens != leave_out.tokens:
                    found.setdefault(occurrence, Neighbor(occurrence, score))
            if len(found) >= k or wanted == limit or len(rows) < wanted:
                break
            wanted *= 4
        return list(found.values())[:k]

    def _nearest(
        self, vector: NDArray[np.floating], k: int, among: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Cosines and rows of the k nearest, best first; fewer if an approximate search finds fewer."""
        if among is None:
            (scores,), (rows,) = self._files.search(vector[None], k)
            return scores[rows >= 0], rows[rows >= 0]
        cosines = self._files.vectors(among) @ unit(vector)
        best = np.argsort(-cosines, kind="stable")[:k]
        return cosines[best], among[best]


def _read_facts(folder: Path) -> IndexFacts:
    path = folder / _FACTS
    if not path.is_file():
        raise InputError(f"{folder}: expected a folder made by `elmo index build`, found no {_FACTS} in it")
    content = read_json(path)
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise FormatError(f"{path}: expected that of an index ({_FORMAT}), found something else")
    facts = from_json(IndexFacts, content, str(path))
    if min(facts.sentences, facts.tokens, facts.dim, facts.probes) < 1:
        raise FormatError(f"{path}: expected positive numbers of sentences, tokens, dim and probes")
    return facts
