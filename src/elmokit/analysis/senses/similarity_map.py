"""Heat map of the token similarities of two sentences, for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elmokit.analysis.search.vector_files import unit
from elmokit.analysis.shared.plots import heat_map, picture, save_picture
from elmokit.embed.elmo import Elmo
from elmokit.embed.layer_choice import Layers
from elmokit.embed.sentence import EmbeddedSentence
from elmokit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


class Picture:
    """A figure that a notebook shows and `save` writes."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def __repr__(self) -> str:
        return "<picture: a notebook shows it; picture.save(path) writes a .png, .svg or .pdf file>"

    def _repr_png_(self) -> bytes:
        return picture(self.figure, ".png")

    def save(self, path: str | Path) -> None:
        """Write a .png, .svg or .pdf file."""
        save_picture(self.figure, Path(path))


def similarity_map(
    first: str | Sequence[str] | EmbeddedSentence,
    second: str | Sequence[str] | EmbeddedSentence | None = None,
    *,
    elmo: Elmo | None = None,
    layers: Layers = "average",
) -> Picture:
    """The cosines of all pairs of tokens of two sentences as a heat map; of one sentence, with itself.

    >>> similarity_map("I will buy you a present.", "Live in the present.")

    first, second: raw text, tokens, or sentences that `Elmo.embed` gave, whose vectors are used. elmo: the model; by
    default the packaged one. layers: "average", "top" or the number of a layer, for text and tokens.
    """
    if layers == "all":
        raise ConfigError("layers: expected average, top, the number of a layer or weights, found all")
    chosen = [first] if second is None else [first, second]
    texts = [item for item in chosen if not isinstance(item, EmbeddedSentence)]
    if texts:
        embedded = iter((elmo or Elmo.from_pretrained()).embed(texts, layers=layers))
        chosen = [item if isinstance(item, EmbeddedSentence) else next(embedded) for item in chosen]
    a, b = (item for item in (chosen[0], chosen[-1]) if isinstance(item, EmbeddedSentence))
    if not len(a) or not len(b):
        raise ConfigError("first, second: expected sentences with tokens, found one without")
    matrix = unit(a.vectors) @ unit(b.vectors).T
    return Picture(heat_map(matrix, a.tokens, b.tokens, value_name="cosine", title="cosine of every pair"))
