"""Conversion of task examples to batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmokit.embed.word_reader import WordReader
from elmokit.nn.padded import TokenIds
from elmokit.tasks.runs.layer_cache import LayerSource
from elmokit.tasks.runs.word_rows import Words
from elmokit.tasks.shared.inputs import PADDING, SentenceIds, TextBatch
from elmokit.tasks.shared.task_base import Task, TaskBatch
from elmokit.tasks.shared.task_settings import InputSettings
from elmokit.text.characters import ByteCharacters

Text = Sequence[Sequence[str]]  # sentences of tokens

_CHARACTERS = ByteCharacters(50)


class BatchReader:
    """Builds batches: word-table rows, characters and ELMo inputs, as the settings require."""

    def __init__(
        self,
        task: Task[Any, Any],
        settings: InputSettings,
        words: Words,
        *,
        layers: LayerSource | None = None,
        bilm: WordReader | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """layers: of a frozen biLM; bilm: tokens-to-ids reader of a fine-tuned biLM; device: of the batches."""
        self._task, self._settings, self._words, self._layers, self._bilm = task, settings, words, layers, bilm
        self._device = device

    def batch(self, examples: Sequence[Any]) -> TaskBatch[Any]:
        """Build one batch from examples."""
        texts = [self._task.sentences(example) for example in examples]
        if self._task.n_texts is None:
            columns: list[Sequence[Text]] = [[text for of_one in texts for text in of_one]]
        else:
            columns = [[of_one[k] for of_one in texts] for k in range(self._task.n_texts)]
        return TaskBatch(list(examples), [self._read(column).to(self._device) for column in columns])

    def _read(self, texts: Sequence[Text]) -> TextBatch:
        sentences = [sentence for text in texts for sentence in text]
        tokens = [token for sentence in sentences for token in sentence]
        mask = _mask([sum(map(len, text)) for text in texts])  # (B, T)
        rows = torch.full(mask.shape, PADDING)
        rows[mask] = torch.tensor([self._words.row(token) for token in tokens], dtype=torch.long)
        characters, character_rows = (
            self._characters(tokens, mask) if self._settings.character_filters else (None, None)
        )
        return TextBatch(
            mask=mask,
            words=rows,
            characters=characters,
            character_rows=character_rows,
            layers=_grid(self._layers.rows(sentences), mask) if self._layers is not None else None,
            sentences=self._ids(tokens, _mask([*map(len, sentences)])) if self._bilm is not None else None,
        )

    def _characters(self, tokens: Sequence[str], mask: Tensor) -> tuple[Tensor, Tensor]:
        """Distinct words as character ids (U, M), padded to the longest, and the word index of each token (B, T)."""
        numbers: dict[str, int] = {}
        which = torch.zeros(mask.shape, dtype=torch.long)
        which[mask] = torch.tensor([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=torch.long)
        ids = _CHARACTERS.encode(list(numbers) or [""])
        longest = int(np.count_nonzero(ids != ids[:, -1:], axis=1).max(initial=0)) + self._settings.character_width
        return torch.from_numpy(ids[:, :longest].copy()), which

    def _ids(self, tokens: list[str], mask: Tensor) -> SentenceIds:
        """Input tensors of the biLM, those it has; mask: (S, W) of the sentences."""
        assert self._bilm is not None
        found = self._bilm(tokens)
        padded = []
        for ids in (found.characters, found.words):
            if ids is not None:
                grid = ids.new_zeros(*mask.shape, *ids.shape[1:])
                grid[mask] = ids
            padded.append(grid if ids is not None else None)
        return SentenceIds(TokenIds(*padded), mask)


def _mask(lengths: Sequence[int]) -> Tensor:
    """Padding mask, (B, T), true at tokens; T at least 1."""
    return torch.arange(max(1, *lengths)) < torch.tensor(lengths).unsqueeze(1)


def _grid(rows: Tensor, mask: Tensor) -> Tensor:
    """Pad concatenated token layers, (N, L + 1, 2D), to (L + 1, B, T, 2D) float32, zero at padding."""
    grid = torch.zeros(
        mask.numel(), *rows.shape[1:]
    )  # token-major like the rows, so that all layers of a token are copied at once
    grid[mask.flatten()] = rows.float()
    return grid.view(*mask.shape, *rows.shape[1:]).movedim(2, 0)
