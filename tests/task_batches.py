"""Inputs and batches of made-up vectors for the tests of a task's network."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from elmokit.tasks.runs.fit import FitState, fit
from elmokit.tasks.shared.inputs import ElmoSource, TextBatch, TextInputs, WordTable
from elmokit.tasks.shared.task_base import Task, TaskBatch, predict_batch
from elmokit.tasks.shared.task_settings import FitSettings, InputSettings

N_LAYERS, ELMO_DIM, WORD_DIM = 3, 6, 5


@dataclass
class MadeUp:
    """Words of some examples, with random static vectors and, with `places`, random ELMo layers."""

    task: Task[Any, Any]
    words: list[str]  # row 2 onwards
    inputs: TextInputs
    elmo: torch.Tensor | None  # (words + 2, N_LAYERS, ELMO_DIM)

    @classmethod
    def of(cls, task: Task[Any, Any], examples: Sequence[Any], *, elmo_at: Any = None, seed: int = 0) -> MadeUp:
        words = sorted({word for example in examples for tokens in task.texts(example) for word in tokens})
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(len(words) + 2, WORD_DIM, generator=generator)
        elmo = torch.randn(len(words) + 2, N_LAYERS, ELMO_DIM, generator=generator)
        inputs = TextInputs(
            settings=InputSettings(elmo=elmo_at is not None, elmo_at=elmo_at or "input", elmo_dropout=0.0),
            words=WordTable(learned=table),
            elmo=ElmoSource(n_layers=N_LAYERS, dim=ELMO_DIM) if elmo_at else None,
        )
        return cls(task, words, inputs, elmo if elmo_at else None)

    def batch(self, examples: Sequence[Any], padding: int = 0) -> TaskBatch[Any]:
        """A batch; `padding`: steps beyond the longest sequence, filled with what must not matter."""
        columns = zip(*(self.task.texts(example) for example in examples), strict=True)
        return TaskBatch(list(examples), [self._text(sequences, padding) for sequences in columns])

    def _text(self, sequences: Sequence[Sequence[str]], padding: int) -> TextBatch:
        n_steps = max(map(len, sequences)) + padding
        rows = torch.zeros(len(sequences), n_steps, dtype=torch.long)
        mask = torch.zeros(len(sequences), n_steps, dtype=torch.bool)
        for row, tokens in enumerate(sequences):
            mask[row, : len(tokens)] = True
            rows[row, : len(tokens)] = torch.tensor([self.words.index(token) + 2 for token in tokens])
        layers = None
        if self.elmo is not None:
            layers = (self.elmo[rows] * mask[..., None, None]).movedim(2, 0)  # (L + 1, B, T, 2D)
        return TextBatch(mask=mask, words=rows, layers=layers)


def overfit(task: Task[Any, Any], examples: Sequence[Any], settings: FitSettings, *, elmo_at: Any = None) -> float:
    """Fit a new network to some examples, and say how well it then knows them: the task's metric."""
    made = MadeUp.of(task, examples, elmo_at=elmo_at)
    torch.manual_seed(settings.seed)
    network = task.network(made.inputs, settings, task.labels(examples))

    def evaluate() -> dict[str, float]:
        return task.score(examples, predict_batch(network, made.batch(examples)))

    steps = fit(
        FitState(network, settings),
        sizes=[task.size(example) for example in examples],
        batch_of=lambda chosen: made.batch([examples[k] for k in chosen]),
        evaluate=evaluate,
        metric=task.metric,
    )
    for _ in steps:
        pass
    return evaluate()[task.metric]


def slow_attention(tokens: list[list[float]], others: list[list[float]]) -> list[list[float]]:
    """For every token the mean of the others, each weighed by exp of the dot product."""
    contexts = []
    for token in tokens:
        weights = [math.exp(sum(p * q for p, q in zip(token, other, strict=True))) for other in others]
        columns = zip(*others, strict=True)
        contexts.append([sum(map(operator.mul, weights, column)) / sum(weights) for column in columns])
    return contexts
