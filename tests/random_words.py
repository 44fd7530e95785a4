"""Sentences of made-up words, their layers, and how far two results are apart."""

from __future__ import annotations

import random

import numpy as np

from elmokit import Elmo

WORDS = [f"word{n}" for n in range(300)]


def sentences(seed: int, n: int = 30) -> list[list[str]]:
    chosen = random.Random(seed)
    return [chosen.choices(WORDS, k=chosen.randint(1, 12)) for _ in range(n)]


def layers(elmo: Elmo, texts: list[list[str]]) -> list[np.ndarray]:
    return [sentence.layers for sentence in elmo.embed(texts)]


def largest_difference(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
