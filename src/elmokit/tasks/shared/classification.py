"""Base of classification tasks: loss, prediction and accuracy for one label per example."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from rich.text import Text
from torch import Tensor

from elmokit.errors import InputError
from elmokit.tasks.shared.task_base import TaskBatch, TaskNetwork


class LabeledExample(Protocol):
    """An example with one label, or None if unknown."""

    @property
    def label(self) -> str | None:
        """The gold label."""


@dataclass(frozen=True)
class Classified:
    """The predicted label of one example and the class probabilities."""

    label: str  # the most probable label
    probabilities: dict[str, float]  # by label

    @property
    def probability(self) -> float:
        """Probability of the predicted label."""
        return self.probabilities[self.label]


class Classifier(TaskNetwork):
    """A network with one logit per label for every example of a batch."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = tuple(labels)

    @abstractmethod
    def logits(self, batch: TaskBatch[Any]) -> Tensor:
        """Logits of the labels, (B, C)."""

    def loss(self, batch: TaskBatch[Any]) -> Tensor:
        """Cross-entropy: mean negative log-likelihood of the gold labels, ()."""
        logits = self.logits(batch)
        return F.cross_entropy(logits, self.targets(example.label for example in batch.examples).to(logits.device))

    def targets(self, labels: Iterable[str | None]) -> Tensor:
        """Label indices, (B,)."""
        numbers = []
        for label in labels:
            if label not in self.labels:
                found = "none" if label is None else repr(label)
                raise InputError(f"label: expected {', '.join(self.labels)} to train or evaluate with, found {found}")
            numbers.append(self.labels.index(label))
        return torch.tensor(numbers)

    def predict(self, batch: TaskBatch[Any]) -> list[Classified]:
        """The most probable label of every example, with all class probabilities."""
        rows: list[list[float]] = torch.softmax(self.logits(batch), dim=-1).tolist()
        return [Classified(self.labels[row.index(max(row))], dict(zip(self.labels, row, strict=True))) for row in rows]


def accuracy(examples: Sequence[LabeledExample], predictions: Sequence[Classified]) -> dict[str, float]:
    """Accuracy in percent."""
    if not examples:
        raise InputError("accuracy: expected labeled examples, found none")
    unlabeled = sum(example.label is None for example in examples)
    if unlabeled:
        raise InputError(f"accuracy: expected a label for every example, found {unlabeled} without")
    right = sum(example.label == prediction.label for example, prediction in zip(examples, predictions, strict=True))
    return {"accuracy": 100 * right / len(examples)}


def as_json(example: LabeledExample, prediction: Classified) -> dict[str, Any]:
    """The JSON fields common to all classification tasks; `gold` if known."""
    gold = {} if example.label is None else {"gold": example.label}
    probabilities = {label: round(value, 6) for label, value in prediction.probabilities.items()}
    return {"label": prediction.label, **gold, "probabilities": probabilities}


def headline(name: str, color: str, prediction: Classified) -> Text:
    """The label in color and its probability, for a terminal."""
    return Text.assemble((name, f"bold {color}"), (f" {prediction.probability:.0%}", "dim"))
