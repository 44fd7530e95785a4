"""An index over the token vectors of a corpus: built once, then searched in milliseconds by any process.

A folder of `index.json` (what it is of), FAISS files of vectors, and the sentences; all but the first memory-mapped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.corpus import Corpus
from elmokit.analysis.layers import BLOCK_TOKENS, View
from elmokit.analysis.occurrence import Neighbour, Occurrence
from elmokit.analysis.sentence_store import SentenceStore, SentenceWriter
from elmokit.analysis.vector_files import VectorFiles, VectorWriter, load_faiss, unit
from elmokit.config import State
from elmokit.embed.elmo import Elmo
from elmokit.embed.run import Progress
from elmokit.embed.sentence import EmbeddedSentence
from elmokit.errors import ConfigError, FormatError, InputError, OutputError
from elmokit.weights.files import new_folder

_FORMAT = "elmokit index 1"
_FACTS = "index.json"


@dataclass(frozen=True)
class IndexFacts:
    """What an index is of, and how good it is."""

    model: str | None  # as it was named when the index was built; None is the packaged one
    fingerprint: str  # of that model: vectors of another one cannot be compared with these
    state: State  # what every sentence starts from
    layer: int | None  # None is the average of all
    corpus: tuple[str, ...]  # the files, as they were named
    sentences: int
    tokens: int
    dim: int
    approximate: bool
    probes: int = 1  # of an approximate index: parts of each file that a search looks at
    recall: float = 1.0  # part of the ten nearest that a search finds, measured when the index was built

    @property
    def view(self) -> View:
        """The layer, or the average."""
        return View("average", None) if self.layer is None else View(f"layer {self.layer}", self.layer)


def build_index(
    elmo: Elmo, corpus: Corpus, folder: str | os.PathLike[str], *, view: View, model: str | None = None,
    approximate: bool = False, progress: Callable[[Progress], None] | None = None,
) -> IndexFacts:  # fmt: skip
    """Embed a corpus into a new folder, which appears when it is complete. Memory does not grow with the vectors.

    model: the name under which a search finds the model again, if the packaged one is not meant.
    """
    load_faiss()  # rather now than after an hour
    if elmo.state == "carry":
        raise ConfigError("--state: expected reset or warm, as a query has no sentence before it, found carry")
    if Path(folder).exists():
        raise OutputError(f"{folder}: exists already; remove it, or choose another name")
    fingerprint, dim = elmo.model.fingerprint, elmo.config.vector_dim
    sentences = SentenceWriter()
    with new_folder(folder, overwrite=False) as fresh:
        vectors = VectorWriter(fresh, dim, approximate=approximate)
        stream = elmo.embed(corpus, layers="average" if view.layer is None else view.layer)
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
            model, fingerprint, elmo.state, view.layer, tuple(corpus.inputs), corpus.sentences, corpus.tokens, dim,
            approximate,
        )  # fmt: skip
        if approximate:
            files = VectorFiles(fresh, count=facts.tokens, dim=dim, approximate=True)
            recall = files.tune(rows, queries)
            facts = replace(facts, probes=files.probes, recall=recall)
        text = json.dumps({"format": _FORMAT, **asdict(facts)}, ensure_ascii=False, indent=1)
        (fresh / _FACTS).write_text(text + "\n", encoding="utf-8")
    return facts


def _blocks(stream: Iterator[EmbeddedSentence]) -> Iterator[list[EmbeddedSentence]]:
    """Sentences together until they are some thousands of tokens: what is done with them then costs little."""
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
    """An index on disk, opened. Nothing is read but what a search touches."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.facts = _read_facts(self.folder)
        facts = self.facts
        self.sentences = SentenceStore(self.folder)
        if len(self.sentences) != facts.tokens:
            raise FormatError(f"{folder}: expected {facts.tokens} tokens, found {len(self.sentences)}; build it anew")
        self._files = VectorFiles(
            self.folder, count=facts.tokens, dim=facts.dim, approximate=facts.approximate, probes=facts.probes
        )

    def require_model(self, elmo: Elmo) -> None:
        """Refuse a model, or a start of sentences, whose vectors are not those of the index."""
        facts, found = self.facts, elmo.model.fingerprint
        if found != facts.fingerprint:
            raise InputError(
                f"{self.folder}: is of another model: expected {facts.model or 'the packaged model'} with fingerprint "
                f"{facts.fingerprint[:12]}, found {found[:12]}; name the model that it is of, or build it anew"
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
    ) -> list[Neighbour]:
        """The k nearest occurrences of a vector (D,), best first; of equal sentences only one counts.

        among: only these rows, as `sentences.rows(word)`; all of them are looked at, also by an approximate index.
        leave_out: nothing out of a sentence of the same tokens as this one's.
        """
        limit = self.facts.tokens if among is None else len(among)
        found: dict[Occurrence, Neighbour] = {}
        wanted = 2 * k + 8
        while limit:
            wanted = min(wanted, limit)
            scores, rows = self._nearest(vector, wanted, among)
            for score, row in zip(scores.tolist(), rows.tolist(), strict=True):
                occurrence = self.sentences.occurrence(row)
                if leave_out is None or occurrence.tokens != leave_out.tokens:
                    found.setdefault(occurrence, Neighbour(occurrence, score))
            if len(found) >= k or wanted == limit or len(rows) < wanted:
                break
            wanted *= 4
        return list(found.values())[:k]

    def _nearest(
        self, vector: NDArray[np.floating], k: int, among: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Cosines and rows of the k nearest, best first; fewer where an approximate search finds no more."""
        if among is None:
            (scores,), (rows,) = self._files.search(vector[None], k)
            return scores[rows >= 0], rows[rows >= 0]
        cosines = self._files.vectors(among) @ unit(vector)
        best = np.argsort(-cosines, kind="stable")[:k]
        return cosines[best], among[best]


def _read_facts(folder: Path) -> IndexFacts:
    try:
        content = json.loads((folder / _FACTS).read_bytes())
        if content.pop("format") != _FORMAT:
            raise ValueError
        return IndexFacts(**content | {"corpus": tuple(content["corpus"])})
    except OSError as error:
        raise InputError(
            f"{folder}: expected a folder made by `elmo index build` ({error.strerror or error})"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FormatError(f"{folder / _FACTS}: expected that of an index ({_FORMAT}), found something else") from None
