"""A function for worker processes, which must be able to import it."""

from __future__ import annotations

from elmokit import Elmo


def sum_of_layers(elmo: Elmo, tokens: list[str]) -> float:
    [sentence] = elmo.embed([tokens])
    return float(sentence.layers.sum())
