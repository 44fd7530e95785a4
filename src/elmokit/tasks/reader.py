"""From the examples of a task to the tensors that its network reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmokit.embed.words import WordReader
from elmokit.nn.padded import TokenIds
from elmokit.tasks.inputs import PADDING, TextBatch
from elmokit.tasks.layer_cache import LayerSource
from elmokit.tasks.settings import InputSettings
from elmokit.tasks.task import Task, TaskBatch
from elmokit.tasks.words import Words
from elmokit.text.characters import ByteCharacters

_CHARACTERS = ByteCharacters(50)


class BatchReader:
    """Makes batches: rows of the word table, characters, and what ELMo needs, as far as the settings ask for them."""

    def __init__(
        self, task: Task[Any, Any], settings: InputSettings, words: Words, *, layers: LayerSource | None = None,
        bilm: WordReader | None = None,
    ) -> None:  # fmt: skip
        """layers: of a frozen biLM; bilm: what reads tokens for one that is trained."""
        self._task, self._settings, self._words, self._layers, self._bilm = task, settings, words, layers, bilm

    def batch(self, examples: Sequence[Any]) -> TaskBatch[Any]:
        """The tensors of some examples."""
        texts = [self._task.texts(example) for example in examples]
        if self._task.n_texts is None:
            columns: list[Sequence[Sequence[str]]] = [[tokens for sequences in texts for tokens in sequences]]
        else:
            columns = [[sequences[k] for sequences in texts] for k in range(self._task.n_texts)]
        return TaskBatch(list(examples), [self._read(column) for column in columns])

    def _read(self, sequences: Sequence[Sequence[str]]) -> TextBatch:
        lengths = torch.tensor([len(tokens) for tokens in sequences])
        n_steps = max(1, int(lengths.max()))
        mask = torch.arange(n_steps) < lengths.unsqueeze(1)  # (B, T)
        tokens = [token for sequence in sequences for token in sequence]
        rows = torch.full(mask.shape, PADDING)
        rows[mask] = torch.tensor([self._words.row(token) for token in tokens], dtype=torch.long)
        characters, character_rows = (
            self._characters(tokens, mask) if self._settings.character_filters else (None, None)
        )
        return TextBatch(
            mask=mask, words=rows, characters=characters, character_rows=character_rows,
            layers=self._layers.batch(sequences, n_steps) if self._layers is not None else None,
            ids=self._ids(tokens, mask) if self._bilm is not None else None,
        )  # fmt: skip

    def _characters(self, tokens: Sequence[str], mask: Tensor) -> tuple[Tensor, Tensor]:
        """The distinct words as characters, (U, M), M as long as the longest needs; and which each token is, (B, T)."""
        numbers: dict[str, int] = {}
        which = torch.zeros(mask.shape, dtype=torch.long)
        which[mask] = torch.tensor([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=torch.long)
        ids = _CHARACTERS.encode(list(numbers) or [""])
        longest = int(np.count_nonzero(ids != ids[:, -1:], axis=1).max(initial=0)) + self._settings.character_width
        return torch.from_numpy(ids[:, :longest].copy()), which

    def _ids(self, tokens: list[str], mask: Tensor) -> TokenIds:
        """What the biLM reads: (B, T, M) and (B, T), as far as it has that input."""
        assert self._bilm is not None
        found = self._bilm(tokens)
        padded = []
        for ids in (found.characters, found.words):
            if ids is not None:
                grid = ids.new_zeros(*mask.shape, *ids.shape[1:])
                grid[mask] = ids
            padded.append(grid if ids is not None else None)
        return TokenIds(*padded)
