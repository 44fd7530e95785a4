"""All that changes while a model is trained."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from elmokit.config import ModelConfig
from elmokit.nn.bilm import BiLM
from elmokit.nn.initialise import initialise
from elmokit.nn.softmax import AdaptiveHead, Head, SoftmaxHead, assemble_head
from elmokit.pretrain.corpus import Position
from elmokit.pretrain.settings import TrainingSettings
from elmokit.text.characters import Characters, characters_of
from elmokit.text.vocabulary import Vocabulary, vocabulary_of
from elmokit.training.checkpoint import Checkpoint
from elmokit.weights.model import Model


@dataclass
class TrainingState:
    """A model in training, with how far it has come. Between two steps it can be put into a checkpoint and back."""

    config: ModelConfig
    settings: TrainingSettings
    vocabulary: Vocabulary
    bilm: BiLM
    head: Head
    optimiser: torch.optim.Optimizer
    alphabet: dict[str, int] | None = None  # where the model reads code points
    step: int = 0  # updates done
    tokens: int = 0  # read, predictions per direction
    seconds: float = 0.0  # of training, over all resumptions
    epochs: float = 0.0  # passes over the text, as 1.25
    position: Position = field(default_factory=Position)  # in the text
    smoothed: float | None = None  # running mean of the loss
    lowest: float | None = None  # the lowest that it was
    best: dict[str, float] | None = None  # the step with the lowest held-out perplexity, and that
    notes: dict[str, Any] = field(default_factory=dict)  # where the run came from: command, preset, parent

    @classmethod
    def begin(
        cls,
        config: ModelConfig,
        settings: TrainingSettings,
        vocabulary: Vocabulary,
        *,
        bilm: BiLM | None = None,
        head: Head | None = None,
        alphabet: dict[str, int] | None = None,
        device: torch.device | str = "cpu",
    ) -> TrainingState:
        """A run before its first step: from random weights, or from those of a model, which are copied."""
        fresh = BiLM(config=config)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(settings.seed)
            initialise(fresh)
            head = _new_head(config, settings, len(vocabulary)) if head is None else deepcopy(head)
        if bilm is not None:
            fresh.load_state_dict(bilm.state_dict())
        return cls._around(config, settings, vocabulary, fresh.to(device), head.to(device), alphabet)

    @classmethod
    def _around(
        cls, config: ModelConfig, settings: TrainingSettings, vocabulary: Vocabulary, bilm: BiLM, head: Head,
        alphabet: dict[str, int] | None,
    ) -> TrainingState:  # fmt: skip
        bilm.requires_grad_(not settings.frozen).dropout = settings.dropout
        head.requires_grad_()
        if isinstance(head, SoftmaxHead):
            # of a sample, Adagrad updates the rows that it used; Adam would have to move them all
            head.sparse = settings.loss == "sampled" and settings.optimiser == "adagrad"
        parameters = [p for p in (*bilm.parameters(), *head.parameters()) if p.requires_grad]
        return cls(config, settings, vocabulary, bilm, head, _new_optimiser(parameters, head, settings), alphabet)

    @property
    def characters(self) -> Characters | None:
        """How the model spells words; None where it reads whole words alone."""
        return characters_of(self.config, self.alphabet)

    @property
    def done(self) -> float:
        """The fraction of the run that is over."""
        settings = self.settings
        if settings.steps is not None:
            return self.step / settings.steps
        if settings.minutes is not None:
            return self.seconds / (60 * settings.minutes)
        return (self.epochs + 1e-9) / cast(float, settings.epochs)  # a sum of parts of 1 may fall short of 1

    def model(self) -> Model:
        """The model as it is now, sharing its weights."""
        return Model(
            config=self.config, bilm=self.bilm, vocabulary=self.vocabulary.words, alphabet=self.alphabet,
            read_softmax=lambda: self.head,
        )  # fmt: skip

    def to_checkpoint(self) -> Checkpoint:
        """What it takes to go on. Random numbers need no state: those of a step follow from the seed and the step."""
        names = {id(p): name for name, p in self._named_parameters()}
        optimiser = {
            f"optimiser.{key}.{names[id(p)]}": value
            for p, kept in self.optimiser.state.items()
            for key, value in kept.items()
        }
        words = "\n".join(self.vocabulary.words).encode("utf-8", "surrogatepass")
        record = {
            "settings": asdict(self.settings), "options": self.config.to_options(), "position": asdict(self.position),
            "step": self.step, "tokens": self.tokens, "seconds": self.seconds, "epochs": self.epochs,
            "smoothed": self.smoothed, "lowest": self.lowest, "best": self.best, "notes": self.notes,
            "alphabet": self.alphabet,
        }  # fmt: skip
        return Checkpoint(
            record,
            {
                **{name: p.detach() for name, p in self._named_parameters()},
                **optimiser,
                "vocabulary": torch.from_numpy(np.frombuffer(words, dtype=np.uint8).copy()),
            },
        )

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, device: torch.device | str = "cpu") -> TrainingState:
        """The run as it was; its tensors are taken over."""
        record, tensors = checkpoint.record, {name: t.to(device) for name, t in checkpoint.tensors.items()}
        config = ModelConfig.from_options(record["options"])
        settings = TrainingSettings.from_json(record["settings"])
        words = checkpoint.tensors["vocabulary"].numpy().tobytes().decode("utf-8", "surrogatepass").split("\n")
        parts: dict[str, dict[str, Tensor]] = {"bilm": {}, "head": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            if part in parts:
                parts[part][rest] = tensor
        with torch.device("meta"):
            bilm = BiLM(config=config)
        bilm.load_state_dict(parts["bilm"], assign=True)
        head = assemble_head(parts["head"])
        state = cls._around(config, settings, vocabulary_of(config, words), bilm, head, record.get("alphabet"))
        for name, p in state._named_parameters():
            kept = {
                key.split(".")[1]: t
                for key, t in tensors.items()
                if key.endswith(f".{name}") and key.startswith("optimiser.")
            }
            if kept:
                state.optimiser.state[p] = kept
        for name in ("step", "tokens", "seconds", "epochs", "smoothed", "lowest", "best", "notes"):
            setattr(state, name, record[name])
        state.position = Position(**record["position"])
        return state

    def _named_parameters(self) -> Iterable[tuple[str, nn.Parameter]]:
        for prefix, module in (("bilm", self.bilm), ("head", self.head)):
            for name, parameter in module.named_parameters():
                yield f"{prefix}.{name}", parameter


def _new_head(config: ModelConfig, settings: TrainingSettings, n_words: int) -> Head:
    dim = config.lstm.projection_dim
    if settings.loss == "adaptive":
        return AdaptiveHead(n_words=n_words, dim=dim)  # born with random weights
    head = SoftmaxHead(n_words=n_words, dim=dim)
    head.initialise()
    return head


def _new_optimiser(parameters: list[nn.Parameter], head: Head, settings: TrainingSettings) -> torch.optim.Optimizer:
    if settings.optimiser == "adagrad":
        return adagrad(parameters, head, settings.learning_rate)
    return torch.optim.Adam(parameters, lr=settings.learning_rate, betas=(0.9, 0.99), fused=True)


def adagrad(parameters: Iterable[nn.Parameter], head: Head, learning_rate: float) -> torch.optim.Adagrad:
    """The published optimiser: torch's fused one, several times as fast, wherever that can be."""
    groups: dict[bool, list[nn.Parameter]] = {}
    for parameter in parameters:
        of_some_rows = isinstance(head, SoftmaxHead) and head.sparse and parameter is head.weight
        groups.setdefault(parameter.device.type == "cpu" and not of_some_rows, []).append(parameter)
    kinds = [{"params": group, "fused": fused} for fused, group in groups.items()]
    return torch.optim.Adagrad(kinds, lr=learning_rate, initial_accumulator_value=1.0, eps=0.0)
