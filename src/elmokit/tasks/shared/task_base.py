"""Base classes of a task: data format, network, metric and output."""

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

from elmokit.errors import InputError
from elmokit.tasks.shared.inputs import TextBatch, TextInputs
from elmokit.tasks.shared.task_settings import FitSettings

if TYPE_CHECKING:
    from rich.console import RenderableType

Example = TypeVar("Example")
Settings = TypeVar("Settings", bound=FitSettings)

log = logging.getLogger("elmokit.tasks")  # warnings for the user: skipped examples, unseen labels


@dataclass(frozen=True)
class TaskBatch(Generic[Example]):
    """Examples and their token sequences as tensors."""

    examples: list[Example]
    # texts[k]: the k-th sequence of every example, one per row. Where examples have any number of sequences
    # (`Task.n_texts` is None), texts[0] holds the sequences of all examples, concatenated.
    texts: list[TextBatch]


class TaskNetwork(nn.Module, ABC):
    """Base class of task networks, on top of `TextInputs`."""

    inputs: TextInputs  # the `inputs` argument of `Task.network`; every subclass stores it under this name

    @abstractmethod
    def loss(self, batch: TaskBatch[Any]) -> Tensor:
        """Mean loss of a batch, (). The training loop adds the L2 penalty of the mixes."""

    @abstractmethod
    def predict(self, batch: TaskBatch[Any]) -> list[Any]:
        """One prediction per example. Called in evaluation mode, under `torch.inference_mode`."""


class Task(ABC, Generic[Example, Settings]):
    """Base class of the tasks; instances have no state.

    Warnings for the user, such as skipped examples, go to `log.warning`.
    """

    name: ClassVar[str]  # as in `elmo task NAME`
    metric: ClassVar[str]  # the key of `score` used for early stopping; higher is better
    settings: ClassVar[type[Any]]  # frozen dataclass, subclass of FitSettings
    n_texts: ClassVar[int | None] = 1  # token sequences per example; None: any number

    @abstractmethod
    def read(self, path: Path) -> list[Example]:
        """Read a file in the published format, plain or compressed; errors name file and line."""

    @abstractmethod
    def texts(self, example: Example) -> Sequence[Sequence[str]]:
        """The token sequences of an example."""

    def sentences(self, example: Example) -> Sequence[Sequence[Sequence[str]]]:
        """Split each text into the sentences that the biLM reads one at a time; by default the whole text is one.

        A text that is one sequence to the task network, such as a passage, may be several sentences to the biLM.
        """
        return [[tokens] for tokens in self.texts(example)]

    @abstractmethod
    def labels(self, examples: Sequence[Example]) -> dict[str, list[str]]:
        """Label sets of the training data, needed to build the network; sorted, so that they are reproducible."""

    @abstractmethod
    def network(self, inputs: TextInputs, settings: Settings, labels: dict[str, list[str]]) -> TaskNetwork:
        """Build a new network; initialization uses torch's default generator, seeded by the caller."""

    @abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Scores in percent, 0 to 100."""

    @abstractmethod
    def parse(self, text: str) -> list[Example]:
        """Parse one input line of `predict` into unlabeled examples; an empty line yields none."""

    def from_tokens(self, tokens: Sequence[str]) -> Example:
        """An example without labels, from the tokens of a sentence; an error where the task needs more than one."""
        raise InputError(
            f"inputs: expected raw text, as {self.name} reads more than one sentence, found a list of tokens"
        )

    @abstractmethod
    def to_json(self, example: Example, prediction: Any) -> dict[str, Any]:
        """The JSON object that `predict` writes per example."""

    @abstractmethod
    def show(self, example: Example, prediction: Any) -> RenderableType:
        """The prediction as shown on a terminal."""

    def size(self, example: Example) -> int:
        """Length of an example; examples of similar size share a batch."""
        return sum(len(tokens) for tokens in self.texts(example))

    def training_examples(self, examples: list[Example], settings: Settings) -> list[Example]:
        """Examples to train on: may add (all phrases of a sentence) or drop (overlong) some of those read."""
        return examples

    def hold_out(self, examples: list[Example], settings: Settings) -> tuple[list[Example], list[Example]]:
        """Split into training and dev part if no dev file is given: `--hold-out 0.1` holds out every tenth example."""
        share = settings.hold_out
        held = [int((k + 1) * share) > int(k * share) for k in range(len(examples))]
        return [e for e, h in zip(examples, held, strict=True) if not h], list(compress(examples, held))


@torch.inference_mode()
def predict_batch(network: TaskNetwork, batch: TaskBatch[Any]) -> list[Any]:
    """Predict in evaluation mode, and restore the network's mode afterwards."""
    was_training = network.training
    network.eval()
    try:
        return network.predict(batch)
    finally:
        network.train(was_training)
