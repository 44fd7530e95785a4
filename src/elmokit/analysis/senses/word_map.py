"""Occurrences of a word as points on a plane: do those of one sense stand together?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.search.vector_files import unit
from elmokit.analysis.shared.layers import View
from elmokit.analysis.shared.map_projection import LEAST, project
from elmokit.analysis.shared.occurrence import Occurrence
from elmokit.analysis.shared.plots import scatter
from elmokit.embed.elmo import Elmo
from elmokit.errors import InputError
from elmokit.text.tokenizer import Tokenizer, tokenize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 500  # occurrences on a map


@dataclass(frozen=True)
class WordMap:
    """Occurrences of one word with their points, and their senses where the text has them."""

    word: str
    view: str  # the vectors that were projected
    occurrences: list[Occurrence]
    senses: list[str | None]
    points: NDArray[np.floating]  # (n, 2)
    nearest: list[int]  # the occurrence with the highest cosine to each one, in all dimensions

    @property
    def same_sense(self) -> int | None:
        """Number of occurrences whose nearest neighbor has the same sense; None if some have no sense."""
        if None in self.senses:
            return None
        return sum(self.senses[k] == self.senses[near] for k, near in enumerate(self.nearest))

    @property
    def by_chance(self) -> float | None:
        """Expected `same_sense` if the nearest occurrence were any other one; None if some have no sense."""
        if None in self.senses:
            return None
        n = len(self.senses)
        return sum(count * (count - 1) / (n - 1) for count in Counter(self.senses).values())

    def to_json(self) -> dict[str, Any]:
        """JSON values for a results file."""
        rows = zip(self.occurrences, self.senses, self.points.tolist(), self.nearest, strict=True)
        return {
            "word": self.word,
            "view": self.view,
            "occurrences": [
                {
                    "sentence": list(one.tokens),
                    "position": one.position,
                    "sense": sense,
                    "point": point,
                    "nearest": near,
                }
                for one, sense, point, near in rows
            ],
            "same_sense": self.same_sense,
            "by_chance": self.by_chance,
        }


def read_occurrences(lines: Iterable[str], word: str, tokenizer: Tokenizer) -> list[tuple[str | None, Occurrence]]:
    """The first occurrence of a word, ignoring case, in each line that has it, with its sense.

    A line is a sentence; or sense and sentence, separated by a tab; or word, sense and sentence, where lines of other
    words are skipped. Lines that start with # are comments. At most MOST occurrences are returned.
    """
    found: list[tuple[str | None, Occurrence]] = []
    for line in lines:
        *columns, text = line.rstrip("\r\n").split("\t")
        if line.startswith("#") or word.casefold() not in text.casefold():
            continue
        if len(columns) > 1 and columns[-2].casefold() != word.casefold():
            continue
        tokens, _ = tokenize(text, tokenizer)
        places = [k for k, token in enumerate(tokens) if token.casefold() == word.casefold()]
        if places:
            found.append((columns[-1] if columns else None, Occurrence(tuple(tokens), places[0])))
        if len(found) == MOST:
            break
    if len(found) < LEAST:
        raise InputError(f"--corpus: expected {LEAST} sentences or more with {word!r}, found {len(found)}")
    return found


def make_map(
    elmo: Elmo, word: str, occurrences: Sequence[tuple[str | None, Occurrence]], view: View, method: str = "pca"
) -> WordMap:
    """Embed the sentences and project the word's vectors of one view, scaled to length 1. method: "pca" or "umap"."""
    senses, places = [sense for sense, _ in occurrences], [one for _, one in occurrences]
    embedded = elmo.embed([list(one.tokens) for one in places], progress=False)
    vectors = np.stack([view.of(s.layers)[one.position] for s, one in zip(embedded, places, strict=True)])
    vectors = unit(vectors.astype(np.float32))
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    return WordMap(word, view.name, places, senses, project(vectors, method), cosines.argmax(axis=1).tolist())


def draw_map(numbers: dict[str, Any]) -> Figure:
    """The map as a picture, from the numbers of `WordMap.to_json`."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for one in numbers["occurrences"]:
        groups.setdefault(one["sense"] or "no sense given", []).append(tuple(one["point"]))
    title = f"{numbers['word']} in {len(numbers['occurrences'])} sentences, {numbers['view']}"
    return scatter(groups, title=title)
