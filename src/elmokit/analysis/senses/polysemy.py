"""Polysemy test: do contextual vectors separate two senses of a word? Static vectors cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.search.vector_files import unit
from elmokit.analysis.shared.layers import View
from elmokit.analysis.shared.occurrence import find_word
from elmokit.disk.json_file import parse_json, read_bytes
from elmokit.embed.elmo import Elmo
from elmokit.errors import FormatError


@dataclass(frozen=True)
class Triple:
    """Two sentences with one sense of a word and one with another; tokens are separated by spaces."""

    word: str
    sense: str
    other_sense: str
    same: tuple[str, str]
    other: str


@dataclass(frozen=True)
class Judgment:
    """Whether, in one view, the two occurrences of one sense are nearer to each other than to the third."""

    same: float  # cosine of the two occurrences of one sense
    first_other: float  # cosine of the first and the other sense
    second_other: float
    right: bool  # by these cosines
    right_by_distance: bool  # by Euclidean distance, which depends on lengths too

    @classmethod
    def of(cls, vectors: NDArray[np.floating]) -> Judgment:
        """vectors: (3, 2D), two of one sense, then the other."""
        cosines = _pairs(unit(vectors), np.dot)
        distances = _pairs(vectors, lambda a, b: np.linalg.norm(a - b))
        return cls(*cosines, cosines[0] > max(cosines[1:]), distances[0] < min(distances[1:]))


def load_triples(path: Path | None = None) -> list[Triple]:
    """Read triples from a JSON list of objects with the fields of Triple; by default the packaged triples.

    In the packaged triples, all three pairs of sentences share the same number of words, and the same number of words
    adjacent to the target, so that word overlap gives no cue. They were written without looking at model output and
    not changed afterwards; they replace an earlier list, which had been run, in which word overlap favored the wrong
    pair.
    """
    if path is None:
        content = resources.files("elmokit.analysis.senses").joinpath("polysemy.json").read_bytes()
    else:
        content = read_bytes(path)
    name = path or "polysemy.json"
    try:
        items = parse_json(content, str(name))
        triples = [Triple(**item | {"same": tuple(item["same"])}) for item in items]
    except (ValueError, TypeError, KeyError):
        raise FormatError(f"{name}: expected a JSON list of word, sense, other_sense, same and other") from None
    for number, triple in enumerate(triples, start=1):
        texts = (triple.word, *triple.same, triple.other)
        if len(triple.same) != 2 or not all(isinstance(text, str) for text in texts):
            raise FormatError(f"{name}: triple {number}: expected two sentences as same and one as other")
        for sentence in texts[1:]:
            if sentence.split().count(triple.word) != 1:
                raise FormatError(f"{name}: triple {number}: expected {triple.word!r} once in {sentence!r}")
    if not triples:
        raise FormatError(f"{name}: expected triples, found none")
    return triples


def judge(elmo: Elmo, triples: Sequence[Triple], views: Sequence[View]) -> list[dict[str, Judgment]]:
    """Judgments of every triple, by view."""
    texts = [text for triple in triples for text in (*triple.same, triple.other)]
    embedded = list(elmo.embed(texts, tokenizer="spaces", progress=False))
    judgments = []
    for number, triple in enumerate(triples):
        sentences = embedded[3 * number : 3 * number + 3]
        at_word = [sentence.layers[:, find_word(sentence.tokens, triple.word).position] for sentence in sentences]
        # in float64, so that equal vectors have equal cosines in any summation order
        layers = np.stack(at_word, axis=1).astype(np.float64)  # (L + 1, 3, 2D)
        judgments.append({view.name: Judgment.of(view.of(layers)) for view in views})
    return judgments


def _pairs(vectors: NDArray[np.floating], measure: Callable[..., Any]) -> tuple[float, float, float]:
    first, second, other = vectors
    return float(measure(first, second)), float(measure(first, other)), float(measure(second, other))
