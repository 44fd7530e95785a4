"""Context-free word vectors: each word is encoded once, and the recently used ones are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Tensor

LONGEST = 256  # maximum characters of a cached word: longer ones take much memory and rarely occur twice


class WordCache:
    """LRU cache of at most `capacity` word vectors; very long words are never kept."""

    def __init__(self, *, encode: Callable[[list[str]], Tensor], capacity: int) -> None:
        """encode: words to (n, D)."""
        self._encode = encode
        self.capacity = capacity
        self._slots: dict[str, int] = {}  # in order of use
        self._table: Tensor | None = None  # (slots, D), grown as needed

    def __len__(self) -> int:
        return len(self._slots)

    def vectors(self, words: Sequence[str]) -> Tensor:
        """(n, D) for n different words."""
        try:
            return self._vectors(words)
        except BaseException:  # Ctrl-C or full memory: slots may be lost, and would be assigned twice
            self._slots.clear()
            raise

    def _vectors(self, words: Sequence[str]) -> Tensor:
        slots = self._slots
        found = [slots.pop(word, -1) for word in words]
        missing = [word for word, slot in zip(words, found, strict=True) if slot < 0]
        # most recently used, so evicted last
        slots.update((word, slot) for word, slot in zip(words, found, strict=True) if slot >= 0)
        if not missing:
            return self._rows(found)
        encoded = self._encode(missing)  # (m, D)
        result = encoded
        if len(missing) < len(words):
            result = encoded.new_empty(len(words), encoded.shape[1])
            at = torch.tensor(found)
            result[at < 0] = encoded
            result[at >= 0] = self._rows([slot for slot in found if slot >= 0])
        usual = [k for k, word in enumerate(missing) if len(word) <= LONGEST][-self.capacity :]
        if usual and self.capacity:
            self._keep([missing[k] for k in usual], encoded[usual])
        return result

    def _rows(self, slots: list[int]) -> Tensor:
        assert self._table is not None
        return self._table[torch.tensor(slots, device=self._table.device)]

    def _keep(self, words: list[str], vectors: Tensor) -> None:
        n_free = self.capacity - len(self._slots)
        oldest = list(islice(self._slots, max(0, len(words) - n_free)))
        free = [self._slots.pop(word) for word in oldest]
        used = len(self._slots) + len(free)  # slots are assigned in order until the table is full
        free.extend(range(used, used + len(words) - len(free)))
        self._grow(max(free) + 1, vectors)
        assert self._table is not None
        self._table[torch.tensor(free, device=vectors.device)] = vectors
        self._slots.update(zip(words, free, strict=True))

    def _grow(self, n: int, like: Tensor) -> None:
        size = 0 if self._table is None else len(self._table)
        if n > size:
            table = like.new_empty(min(self.capacity, max(n, 2 * size)), like.shape[1])
            if self._table is not None:
                table[:size] = self._table
            self._table = table
