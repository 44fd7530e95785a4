"""One word, two senses: does the model tell them apart? Static vectors cannot, by their nature."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.layers import View
from elmokit.analysis.occurrence import find_word
from elmokit.analysis.vector_files import unit
from elmokit.embed.elmo import Elmo
from elmokit.errors import FormatError


@dataclass(frozen=True)
class Triple:
    """Two sentences with one sense of a word, and one with another. Tokens stand between spaces."""

    word: str
    sense: str
    other_sense: str
    same: tuple[str, str]
    other: str


@dataclass(frozen=True)
class Judgement:
    """Whether the two occurrences of one sense are nearer to each other than either is to the third, in one view."""

    same: float  # the cosine of the two of one sense
    first_other: float  # of the first of them and the one of the other sense
    second_other: float
    right: bool  # by these cosines
    right_by_distance: bool  # by Euclid's distance, which sees lengths too

    @classmethod
    def of(cls, vectors: NDArray[np.floating]) -> Judgement:
        """vectors: (3, 2D), the two of one sense and the other."""
        cosines = _pairs(unit(vectors), np.dot)
        distances = _pairs(vectors, lambda a, b: np.linalg.norm(a - b))
        return cls(*cosines, cosines[0] > max(cosines[1:]), distances[0] < min(distances[1:]))


def load_triples(path: Path | None = None) -> list[Triple]:
    """The triples of a JSON file: a list of objects with the fields of Triple. By default those of the package.

    Their three pairs of sentences have the same number of words in common, and the same number right beside the word:
    only the sense can tell. No model was looked at while they were written, nor were they changed afterwards; an
    earlier list, in which words in common spoke for the wrong pair, had been run and was thrown away.
    """
    if path is None:
        content = resources.files("elmokit.analysis").joinpath("polysemy.json").read_bytes()
    else:
        content = path.read_bytes()
    name = path or "polysemy.json"
    try:
        items = json.loads(content)
        triples = [Triple(**item | {"same": tuple(item["same"])}) for item in items]
    except (ValueError, TypeError, KeyError, RecursionError):
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


def judge(elmo: Elmo, triples: Sequence[Triple], views: Sequence[View]) -> list[dict[str, Judgement]]:
    """The judgements of every triple, by view."""
    texts = [text for triple in triples for text in (*triple.same, triple.other)]
    embedded = list(elmo.embed(texts, tokenizer="spaces"))
    judgements = []
    for number, triple in enumerate(triples):
        sentences = embedded[3 * number : 3 * number + 3]
        at_word = [sentence.layers[:, find_word(sentence.tokens, triple.word).position] for sentence in sentences]
        # in double precision, so that equal vectors have equal cosines whatever the order of the sums
        layers = np.stack(at_word, axis=1).astype(np.float64)  # (L + 1, 3, 2D)
        judgements.append({view.name: Judgement.of(view.of(layers)) for view in views})
    return judgements


def _pairs(vectors: NDArray[np.floating], measure: Callable[..., Any]) -> tuple[float, float, float]:
    first, second, other = vectors
    return float(measure(first, second)), float(measure(first, other)), float(measure(second, other))
