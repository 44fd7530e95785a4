"""Batches of AllenNLP 0.9, where ids are found under field and indexer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from elmokit.integrations.allennlp import fields


class Batch(fields.Batch):
    """Instances with the same fields."""

    def as_tensor_dict(
        self, padding_lengths: Mapping[str, Mapping[str, int]] | None = None, verbose: bool = False
    ) -> dict[str, Any]:
        """Padded tensors (B, ...) by field and indexer."""
        nested = super().as_tensor_dict(padding_lengths, verbose)
        return {
            name: {indexer: next(iter(ids.values())) for indexer, ids in tensors.items()}
            for name, tensors in nested.items()
        }


class BasicIterator:
    """Batches of instances as tensors."""

    def __init__(self, batch_size: int = 32) -> None:
        self.batch_size, self.vocab = batch_size, None

    def index_with(self, vocab: Any) -> None:
        """Set the vocabulary."""
        self.vocab = vocab

    def __call__(
        self, instances: Iterable[fields.Instance], num_epochs: int | None = None, shuffle: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Batches of `num_epochs` passes over the instances; None repeats forever."""
        loader = fields.SimpleDataLoader(instances, self.batch_size, shuffle=shuffle, vocab=self.vocab)
        loader.batch_class = Batch
        epoch = 0
        while num_epochs is None or epoch < num_epochs:
            yield from loader
            epoch += 1
