"""What a task is: its data, its network, its score, and how a prediction is shown."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from elmokit.tasks.inputs import TextBatch, TextInputs
from elmokit.tasks.settings import FitSettings

if TYPE_CHECKING:
    from rich.console import RenderableType

Example = TypeVar("Example")
Settings = TypeVar("Settings", bound=FitSettings)

log = logging.getLogger("elmokit.tasks")  # what a user should know: examples that were left out, labels never seen


@dataclass(frozen=True)
class TaskBatch(Generic[Example]):
    """Examples and their token sequences as tensors."""

    examples: list[Example]
    # texts[k]: the k-th sequence of every example, one a row. Where examples have any number of sequences
    # (`Task.n_texts` is None), texts[0] has those of all examples, one after another.
    texts: list[TextBatch]


class TaskNetwork(nn.Module, ABC):
    """The network of a task. What it adds to the inputs is its own."""

    inputs: TextInputs  # given to `Task.network`, and kept under this name

    @abstractmethod
    def loss(self, batch: TaskBatch[Any]) -> Tensor:
        """() the mean loss of a batch. The L2 term of the mixes is not part of it: the fit loop adds it."""

    @abstractmethod
    def predict(self, batch: TaskBatch[Any]) -> list[Any]:
        """One prediction an example. Called in evaluation mode, under `torch.inference_mode`."""


class Task(ABC, Generic[Example, Settings]):
    """One subclass a task; its objects have no state.

    What a user should know, such as examples that were left out, goes to `log.warning`.
    """

    name: ClassVar[str]  # as in `elmo task NAME`
    metric: ClassVar[str]  # the key of `score` that early stopping watches; more is better
    settings: ClassVar[type[Any]]  # frozen dataclass, child of FitSettings
    n_texts: ClassVar[int | None] = 1  # token sequences of an example; None: any number

    @abstractmethod
    def read(self, path: Path) -> list[Example]:
        """The examples of a file in the published format, plain or compressed; faults name file and line."""

    @abstractmethod
    def texts(self, example: Example) -> Sequence[Sequence[str]]:
        """The token sequences of an example."""

    def sentences(self, example: Example) -> Sequence[Sequence[Sequence[str]]]:
        """The sentences of each text, which together are its tokens: the biLM reads one at a time. By default the text.

        A text that is one sequence to the task's network, as a passage is, may be many sentences to the biLM.
        """
        return [[tokens] for tokens in self.texts(example)]

    @abstractmethod
    def labels(self, examples: Sequence[Example]) -> dict[str, list[str]]:
        """What must be known before the network is built, from the training data; sorted, so that it is repeatable."""

    @abstractmethod
    def network(self, inputs: TextInputs, settings: Settings, labels: dict[str, list[str]]) -> TaskNetwork:
        """A new network; random numbers come from torch's default generator, which is seeded before."""

    @abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Percentages, 0 to 100."""

    @abstractmethod
    def parse(self, text: str) -> list[Example]:
        """Examples without labels, from one line of input to `predict`; none if there is nothing in it."""

    @abstractmethod
    def to_json(self, example: Example, prediction: Any) -> dict[str, Any]:
        """What `predict` gives as one line of JSON."""

    @abstractmethod
    def show(self, example: Example, prediction: Any) -> RenderableType:
        """What `predict` gives on a terminal."""

    def size(self, example: Example) -> int:
        """How long an example is: those of like size share a batch."""
        return sum(len(tokens) for tokens in self.texts(example))

    def training_examples(self, examples: list[Example], settings: Settings) -> list[Example]:
        """What is trained on: more than was read (all phrases of a sentence), or less (no very long ones)."""
        return examples

    def hold_out(self, examples: list[Example], settings: Settings) -> tuple[list[Example], list[Example]]:
        """Training and dev part, where no dev file is given: `--hold-out 0.1` holds every tenth example out."""
        share = settings.hold_out
        held = [int((k + 1) * share) > int(k * share) for k in range(len(examples))]
        return [e for e, h in zip(examples, held, strict=True) if not h], list(compress(examples, held))


@torch.inference_mode()
def predict_batch(network: TaskNetwork, batch: TaskBatch[Any]) -> list[Any]:
    """Predictions in evaluation mode; the network's mode is as before afterwards."""
    was_training = network.training
    network.eval()
    try:
        return network.predict(batch)
    finally:
        network.train(was_training)
