"""An embedded sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import ConfigError, InputError

Pool = Literal["mean", "max"]


@dataclass(repr=False)
class EmbeddedSentence:
    """The tokens of one sentence and their vectors.

    `len(sentence)` is the number of tokens; `sentence[3]` and `sentence["present"]` are the vectors (2D,) of a token.
    """

    tokens: list[str]
    layers: NDArray[np.floating] = field(repr=False)  # (L + 1, n, 2D); (1, n, 2D) if one combination was asked for
    text: str | None = None  # the raw text, where the engine did the tokenizing
    offsets: list[tuple[int, int]] | None = field(default=None, repr=False)  # of each token in the raw text

    @cached_property
    def vectors(self) -> NDArray[np.floating]:
        """(n, 2D): the combination of layers that was asked for; of all layers, their average."""
        # an untrained mix: equal weights, gamma 1
        vectors: NDArray[np.floating] = self.layers[0] if len(self.layers) == 1 else self.layers.mean(axis=0)
        return vectors

    def __len__(self) -> int:
        return len(self.tokens)

    def __bool__(self) -> bool:
        return True  # a blank line is a sentence, too

    def __getitem__(self, key: int | str | slice) -> NDArray[np.floating]:
        """(2D,) the vector of the token at a place, or of the token that is this word; (k, 2D) of a slice."""
        if isinstance(key, str):
            key = self.place_of(key)
        elif isinstance(key, Integral):
            if not -len(self) <= key < len(self):
                raise IndexError(f"sentence: expected a token from 0 to {len(self) - 1}, found {key}")
        elif not isinstance(key, slice):
            raise TypeError(f"sentence: expected a word, the place of a token or a slice, found {key!r}")
        vectors: NDArray[np.floating] = self.vectors[key]
        return vectors

    def __contains__(self, word: object) -> bool:
        return word in self.tokens  # without it, `in` would compare a word with vectors

    def place_of(self, word: str) -> int:
        """The place of the one token that is this word."""
        places = [place for place, token in enumerate(self.tokens) if token == word]
        if len(places) == 1:
            return places[0]
        if not places:
            raise InputError(f"sentence: expected one of its tokens, found {word!r}; it has {', '.join(self.tokens)}")
        raise InputError(
            f"sentence: {word!r} stands at {', '.join(map(str, places))}; choose one: sentence[{places[0]}]"
        )

    def __repr__(self) -> str:
        shown = " ".join(self.tokens[:12]) + (" ..." if len(self) > 12 else "")
        return f"EmbeddedSentence({shown!r}, {len(self)} tokens, layers {self.layers.shape})"

    def _repr_html_(self) -> str:
        """A notebook shows the tokens in boxes, and the shapes below."""
        box = "display:inline-block;margin:1px;padding:1px 5px;border:1px solid #bbb;border-radius:3px"
        boxes = "".join(
            f'<span style="{box}" title="sentence[{place}]">{escape(token)}</span>'
            for place, token in enumerate(self.tokens)
        )
        shapes = f"vectors {self.vectors.shape}, layers {self.layers.shape}, {self.layers.dtype}"
        return f"<div>{boxes}<br><small>{escape(shapes)}</small></div>"

    def vector(self, pool: Pool = "mean", *, punctuation: bool = True) -> NDArray[np.floating]:
        """(2D,) one vector for the sentence; zeros if it has no tokens.

        Without punctuation, tokens that hold no letter and no digit do not count, unless there are no others.
        """
        if pool not in ("mean", "max"):
            raise ConfigError(f"--pool: expected mean or max, found {pool!r}")
        vectors = self.vectors
        if not punctuation:
            words = [k for k, token in enumerate(self.tokens) if any(map(str.isalnum, token))]
            vectors = vectors[words] if words else vectors
        if not len(vectors):
            return np.zeros(vectors.shape[1], vectors.dtype)
        pooled: NDArray[np.floating] = vectors.mean(axis=0) if pool == "mean" else vectors.max(axis=0)
        return pooled
