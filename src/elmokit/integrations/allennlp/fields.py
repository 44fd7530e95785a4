"""Instances, fields and batches of `allennlp.data`, as far as they carry text to ELMo."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from elmokit.errors import ConfigError
from elmokit.integrations.allennlp.indexer import TokenIndexer
from elmokit.integrations.allennlp.util import lazy_groups_of

Lengths = dict[str, int]  # padding lengths; the key of a text is "<indexer>___<key of its ids>"


class TextField:
    """Tokens, and the indexers that map them to ids."""

    def __init__(self, tokens: Sequence[Any], token_indexers: Mapping[str, TokenIndexer] | None = None) -> None:
        self.tokens, self._token_indexers = list(tokens), dict(token_indexers or {})
        self._indexed: dict[str, dict[str, list[Any]]] | None = None  # by indexer

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        """Count the tokens for a vocabulary."""
        for indexer in self._token_indexers.values():
            for token in self.tokens:
                indexer.count_vocab_items(token, counter)

    def index(self, vocab: Any) -> None:
        """Compute the ids."""
        self._indexed = {
            name: indexer.tokens_to_indices(self.tokens, vocab) for name, indexer in self._token_indexers.items()
        }

    def get_padding_lengths(self) -> Lengths:
        """Number of ids of each indexer."""
        return {
            f"{name}___{key}": length
            for name, rows in self._rows().items()
            for key, length in self._token_indexers[name].get_padding_lengths(rows).items()
        }

    def as_tensor(self, padding_lengths: Lengths) -> dict[str, dict[str, Tensor]]:
        """Padded ids, by indexer and key."""
        return {
            name: self._token_indexers[name].as_padded_tensor_dict(
                rows, {key: padding_lengths[f"{name}___{key}"] for key in rows}
            )
            for name, rows in self._rows().items()
        }

    def empty_field(self) -> TextField:
        """The padding of a list of such fields."""
        field = TextField([], self._token_indexers)
        field._indexed = {name: indexer.get_empty_token_list() for name, indexer in self._token_indexers.items()}
        return field

    def sequence_length(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    __len__ = sequence_length

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tokens)

    def __getitem__(self, place: int) -> Any:
        return self.tokens[place]

    def _rows(self) -> dict[str, dict[str, list[Any]]]:
        if self._indexed is None:
            raise ConfigError("TextField: expected ids, found none; call index(vocab) first")
        return self._indexed


class ListField:
    """Fields of one kind, such as the sentences of a document; a batch pads their number with empty fields."""

    def __init__(self, field_list: Sequence[Any]) -> None:
        if not field_list:
            raise ConfigError("ListField: expected at least one field, found none")
        self.field_list = list(field_list)

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        """Count the tokens for a vocabulary."""
        for field in self.field_list:
            field.count_vocab_items(counter)

    def index(self, vocab: Any) -> None:
        """Compute the ids."""
        for field in self.field_list:
            field.index(vocab)

    def get_padding_lengths(self) -> Lengths:
        """Number of fields, and the largest lengths among them, prefixed with "list_"."""
        inner = _largest(field.get_padding_lengths() for field in self.field_list)
        return {"num_fields": len(self.field_list), **{f"list_{key}": length for key, length in inner.items()}}

    def as_tensor(self, padding_lengths: Lengths) -> Any:
        """Tensors of the fields, stacked in a new first dimension."""
        lengths = {key.removeprefix("list_"): n for key, n in padding_lengths.items() if key.startswith("list_")}
        missing = padding_lengths["num_fields"] - len(self.field_list)
        padded = [*self.field_list, *[self.field_list[0].empty_field()] * missing]
        return _stack([field.as_tensor(lengths) for field in padded])

    def empty_field(self) -> ListField:
        """The padding of a list of such fields."""
        return ListField([self.field_list[0].empty_field()])

    def sequence_length(self) -> int:
        """Number of fields."""
        return len(self.field_list)

    __len__ = sequence_length

    def __iter__(self) -> Iterator[Any]:
        return iter(self.field_list)

    def __getitem__(self, place: int) -> Any:
        return self.field_list[place]


class Instance(Mapping[str, Any]):
    """Fields by name."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)

    def add_field(self, field_name: str, field: Any, vocab: Any = None) -> None:
        """Add a field; with `vocab`, compute its ids."""
        self.fields[field_name] = field
        if vocab is not None:
            field.index(vocab)

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        """Count the tokens for a vocabulary."""
        for field in self.fields.values():
            field.count_vocab_items(counter)

    def index_fields(self, vocab: Any) -> None:
        """Compute the ids."""
        for field in self.fields.values():
            field.index(vocab)

    def get_padding_lengths(self) -> dict[str, Lengths]:
        """Padding lengths by field."""
        return {name: field.get_padding_lengths() for name, field in self.fields.items()}

    def as_tensor_dict(self, padding_lengths: Mapping[str, Lengths] | None = None) -> dict[str, Any]:
        """Tensors by field."""
        lengths = padding_lengths or self.get_padding_lengths()
        return {name: field.as_tensor(lengths[name]) for name, field in self.fields.items()}

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


class Batch:
    """Instances with the same fields. Ids are found under field, indexer and key, as in AllenNLP 1 and 2."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self.instances = list(instances)

    def index_instances(self, vocab: Any) -> None:
        """Compute the ids."""
        for instance in self.instances:
            instance.index_fields(vocab)

    def get_padding_lengths(self) -> dict[str, Lengths]:
        """Largest padding lengths among the instances, by field."""
        found = [instance.get_padding_lengths() for instance in self.instances]
        return {name: _largest(lengths[name] for lengths in found) for name in (found[0] if found else ())}

    def as_tensor_dict(
        self, padding_lengths: Mapping[str, Mapping[str, int]] | None = None, verbose: bool = False
    ) -> dict[str, Any]:
        """Padded tensors (B, ...) by field. padding_lengths: lengths to use in place of the largest, by field."""
        lengths = self.get_padding_lengths()
        for name, chosen in (padding_lengths or {}).items():
            lengths[name] = {**lengths.get(name, {}), **chosen}
        stacked: dict[str, Any] = _stack([instance.as_tensor_dict(lengths) for instance in self.instances])
        return stacked

    def __iter__(self) -> Iterator[Instance]:
        return iter(self.instances)

    def __len__(self) -> int:
        return len(self.instances)


class SimpleDataLoader:
    """Batches of instances as tensors, in order or shuffled (AllenNLP 2)."""

    batch_class: type[Batch] = Batch

    def __init__(
        self, instances: Iterable[Instance], batch_size: int, *, shuffle: bool = False, vocab: Any = None
    ) -> None:
        self.instances, self.batch_size, self.shuffle, self.vocab = list(instances), batch_size, shuffle, vocab

    def index_with(self, vocab: Any) -> None:
        """Set the vocabulary."""
        self.vocab = vocab

    def iter_instances(self) -> Iterator[Instance]:
        """The instances, with their ids."""
        for instance in self.instances:
            if self.vocab is not None:
                instance.index_fields(self.vocab)
            yield instance

    def __iter__(self) -> Iterator[dict[str, Any]]:
        instances = list(self.iter_instances())
        if self.shuffle:
            random.shuffle(instances)
        for group in lazy_groups_of(instances, self.batch_size):
            yield self.batch_class(group).as_tensor_dict()

    def __len__(self) -> int:
        return -(-len(self.instances) // self.batch_size)


def _largest(lengths: Iterable[Mapping[str, int]]) -> Lengths:
    largest: Lengths = {}
    for each in lengths:
        for key, n in each.items():
            largest[key] = max(n, largest.get(key, 0))
    return largest


def _stack(parts: Sequence[Any]) -> Any:
    """Tensors, or dictionaries of them, stacked in a new first dimension."""
    if parts and isinstance(parts[0], Mapping):
        return {key: _stack([part[key] for part in parts]) for key in parts[0]}
    return torch.stack(list(parts)) if parts else {}
