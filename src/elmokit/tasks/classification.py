"""What tasks share that give every example one label: the loss, the prediction, and the accuracy."""

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
from elmokit.tasks.task import TaskBatch, TaskNetwork


class Labelled(Protocol):
    """An example with one label, or None where it is not known."""

    @property
    def label(self) -> str | None:
        """The gold label."""


@dataclass(frozen=True)
class Classified:
    """What a network says of one example."""

    label: str  # the most probable one
    probabilities: dict[str, float]  # of every label

    @property
    def probability(self) -> float:
        """Of the label."""
        return self.probabilities[self.label]


class Classifier(TaskNetwork):
    """A network that gives every example of a batch one score a label."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = tuple(labels)

    @abstractmethod
    def logits(self, batch: TaskBatch[Any]) -> Tensor:
        """(B, C) scores of the labels, before the softmax."""

    def loss(self, batch: TaskBatch[Any]) -> Tensor:
        """() mean negative log-likelihood of the gold labels."""
        logits = self.logits(batch)
        return F.cross_entropy(logits, self.targets(example.label for example in batch.examples).to(logits.device))

    def targets(self, labels: Iterable[str | None]) -> Tensor:
        """(B,) numbers of the labels."""
        numbers = []
        for label in labels:
            if label not in self.labels:
                found = "none" if label is None else repr(label)
                raise InputError(f"label: expected {', '.join(self.labels)} to train or evaluate with, found {found}")
            numbers.append(self.labels.index(label))
        return torch.tensor(numbers)

    def predict(self, batch: TaskBatch[Any]) -> list[Classified]:
        """The most probable label of every example, with the probabilities of all."""
        rows: list[list[float]] = torch.softmax(self.logits(batch), dim=-1).tolist()
        return [Classified(self.labels[row.index(max(row))], dict(zip(self.labels, row, strict=True))) for row in rows]


def accuracy(examples: Sequence[Labelled], predictions: Sequence[Classified]) -> dict[str, float]:
    """The percentage of examples whose label was predicted."""
    if not examples:
        raise InputError("accuracy: expected labelled examples, found none")
    unlabelled = sum(example.label is None for example in examples)
    if unlabelled:
        raise InputError(f"accuracy: expected a label for every example, found {unlabelled} without")
    right = sum(
        example.label == prediction.label for example, prediction in zip(examples, predictions, strict=True)
    )  # fmt: skip
    return {"accuracy": 100 * right / len(examples)}


def as_json(example: Labelled, prediction: Classified) -> dict[str, Any]:
    """The part of a JSON line that all these tasks have; `gold` where it is known."""
    gold = {} if example.label is None else {"gold": example.label}
    probabilities = {label: round(value, 6) for label, value in prediction.probabilities.items()}
    return {"label": prediction.label, **gold, "probabilities": probabilities}


def headline(name: str, colour: str, prediction: Classified) -> Text:
    """The label in its colour and how sure of it the network is, for a terminal."""
    return Text.assemble((name, f"bold {colour}"), (f" {prediction.probability:.0%}", "dim"))
