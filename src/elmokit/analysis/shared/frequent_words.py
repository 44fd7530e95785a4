"""The most frequent words of a model's vocabulary."""

from __future__ import annotations

from elmokit.weights.model import Model

_MARKS = {"<S>", "</S>", "<UNK>", "<bos>", "<eos>", "<oov>", "<pad>"}


def frequent_words(model: Model, n: int) -> list[str]:
    """The first n words of the vocabulary that have a letter; vocabularies are sorted by frequency."""
    head = (model.vocabulary or ())[: 2 * n + 10]
    return [word for word in head if word not in _MARKS and any(map(str.isalpha, word))][:n]
