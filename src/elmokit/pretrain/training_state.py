"""Training state: model, optimizer and progress, with conversion to and from checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from elmokit.config import ModelConfig
from elmokit.disk.json_file import from_json
from elmokit.disk.tensor_file import TensorSpec, check_tensor
from elmokit.errors import FormatError
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.initialize import initialize
from elmokit.nn.softmax import AdaptiveHead, Head, SoftmaxHead, assemble_head
from elmokit.pretrain.corpus import Position
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.text.characters import Characters, characters_of
from elmokit.text.vocabulary import Vocabulary, vocabulary_of
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.optimizer_state import checked_state
from elmokit.weights.model import Model, assemble


@dataclass(frozen=True)
class TrainingRecord:
    """JSON part of a checkpoint; the fields are described at `TrainingState`."""

    settings: dict[str, Any]
    options: dict[str, Any]
    position: Position
    step: int
    tokens: int
    seconds: float
    epochs: float
    smoothed: float | None
    lowest: float | None
    best: dict[str, int | float] | None
    notes: dict[str, Any]
    alphabet: dict[str, int] | None = None

    def check(self) -> None:
        """Raise a FormatError for impossible counts and malformed notes."""
        counts = {name: getattr(self, name) for name in ("step", "tokens", "seconds", "epochs")}
        for name, value in (counts | asdict(self.position)).items():
            if not 0 <= value < math.inf:
                raise FormatError(f"checkpoint: expected {name} of 0 or more, found {value}")
        names = {"step", "forward", "backward", "mean", "geometric_mean", "out_of_vocabulary"}
        if self.best is not None and self.best.keys() != names:
            raise FormatError(f"checkpoint: expected {', '.join(sorted(names))} under best, found other names")
        known = {item.name for item in fields(Notes)}
        from_json(Notes, {name: self.notes[name] for name in self.notes.keys() & known}, "checkpoint, notes")


@dataclass(frozen=True)
class Notes:
    """Provenance of a run: the notes that the code reads."""

    processes: int = 1
    heldout: str | None = None  # SHA-256 of the held-out text
    overlap: int = 0  # held-out sentences that also occur in the training text
    learning_rate: float = 0.0  # learning rate of the fine-tuning that follows the softmax fit
    command: str = ""
    preset: str | None = None
    parent: str = ""
    before: float = 0.0  # held-out perplexity before fine-tuning
    changes: tuple[str, ...] = ()  # settings changed on resumption


@dataclass
class TrainingState:
    """A model in training and its progress. Between two steps it can be saved to and restored from a checkpoint."""

    config: ModelConfig
    settings: TrainingSettings
    vocabulary: Vocabulary
    bilm: BiLM
    head: Head
    optimizer: torch.optim.Optimizer
    alphabet: dict[str, int] | None = None  # for models that read code points
    step: int = 0  # completed updates
    tokens: int = 0  # tokens read, as predictions per direction
    seconds: float = 0.0  # training time, over all resumptions
    epochs: float = 0.0  # completed epochs, e.g. 1.25
    position: Position = field(default_factory=Position)  # position in the corpus
    smoothed: float | None = None  # running mean of the loss
    lowest: float | None = None  # minimum of the running mean
    best: dict[str, float] | None = None  # step and values of the lowest held-out perplexity
    notes: dict[str, Any] = field(default_factory=dict)  # provenance: command, preset, parent

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
        """Initial state: random weights, or a copy of the weights of a model."""
        fresh = BiLM(config=config)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(settings.seed)
            initialize(fresh)
            head = _new_head(config, settings, len(vocabulary)) if head is None else deepcopy(head)
        if bilm is not None:
            fresh.load_state_dict(bilm.state_dict())
        return cls._assemble(config, settings, vocabulary, fresh.to(device), head.to(device), alphabet)

    @classmethod
    def _assemble(
        cls,
        config: ModelConfig,
        settings: TrainingSettings,
        vocabulary: Vocabulary,
        bilm: BiLM,
        head: Head,
        alphabet: dict[str, int] | None,
    ) -> TrainingState:
        optimize_(bilm).requires_grad_(not settings.frozen).dropout = settings.dropout
        optimize_(head).requires_grad_()
        if isinstance(head, SoftmaxHead):
            # with a sampled softmax, Adagrad updates only the sampled rows; Adam needs dense gradients
            head.sparse = settings.loss == "sampled" and settings.optimizer == "adagrad"
        parameters = [p for p in (*bilm.parameters(), *head.parameters()) if p.requires_grad]
        return cls(config, settings, vocabulary, bilm, head, _new_optimizer(parameters, head, settings), alphabet)

    @property
    def characters(self) -> Characters | None:
        """Character encoder of the model; None if it reads whole words."""
        return characters_of(self.config, self.alphabet)

    @property
    def done(self) -> float:
        """Completed fraction of the run."""
        settings = self.settings
        if settings.steps is not None:
            return self.step / settings.steps
        if settings.minutes is not None:
            return self.seconds / (60 * settings.minutes)
        return (self.epochs + 1e-9) / cast(float, settings.epochs)  # tolerate rounding in the sum of fractions

    def model(self) -> Model:
        """Current model, sharing its weights with the state."""
        return Model(
            config=self.config,
            bilm=self.bilm,
            vocabulary=self.vocabulary.words,
            alphabet=self.alphabet,
            read_softmax=lambda: self.head,
        )

    def to_checkpoint(self) -> Checkpoint:
        """Checkpoint to resume from. Random numbers need no state: they are seeded by the seed and the step."""
        names = {id(p): name for name, p in self._named_parameters()}
        optimizer = {
            f"optimiser.{key}.{names[id(p)]}": value
            for p, kept in self.optimizer.state.items()
            for key, value in kept.items()
        }
        words = "\n".join(self.vocabulary.words).encode("utf-8", "surrogatepass")
        record = {
            "settings": asdict(self.settings),
            "options": self.config.to_options(),
            "position": asdict(self.position),
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "epochs": self.epochs,
            "smoothed": self.smoothed,
            "lowest": self.lowest,
            "best": self.best,
            "notes": self.notes,
            "alphabet": self.alphabet,
        }
        return Checkpoint(
            record,
            {
                **{name: p.detach() for name, p in self._named_parameters()},
                **optimizer,
                "vocabulary": torch.from_numpy(np.frombuffer(words, dtype=np.uint8).copy()),
            },
        )

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, device: torch.device | str = "cpu") -> TrainingState:
        """Restore a state; the tensors of the checkpoint are reused, not copied."""
        record = from_json(TrainingRecord, checkpoint.record, "checkpoint")
        record.check()
        config = ModelConfig.from_options(record.options)
        settings = TrainingSettings.from_json(record.settings)
        parts: dict[str, dict[str, Tensor]] = {"bilm": {}, "head": {}, "optimiser": {}}
        for name, tensor in checkpoint.tensors.items():
            part, _, rest = name.partition(".")
            if part in parts:
                parts[part][rest] = tensor.to(device)
            elif name != "vocabulary":
                raise FormatError(f"checkpoint: expected tensors of a run, found {name}")
        for part in ("bilm", "head"):  # dtype and finiteness; `assemble` checks the shapes
            for name, tensor in parts[part].items():
                check_tensor(tensor, TensorSpec(tuple(tensor.shape)), name, f"checkpoint, {part}")
        bilm = assemble(config, parts["bilm"], "checkpoint, biLM")
        if unknown := parts["bilm"].keys() - bilm.state_dict().keys():
            raise FormatError(f"checkpoint: expected no tensor {min(unknown)} in the biLM, found it")
        head = assemble_head(parts["head"])
        words = _words_of(checkpoint.tensors)
        if (head.dim, head.n_words) != (config.lstm.projection_dim, len(words)):
            raise FormatError(
                f"checkpoint: expected a softmax of {len(words)} words by {config.lstm.projection_dim}, found "
                f"{head.n_words} by {head.dim}"
            )
        bilm.train()
        state = cls._assemble(config, settings, vocabulary_of(config, words), bilm, head, record.alphabet)
        parameters = dict(state._named_parameters())
        kept = checked_state(parts["optimiser"], parameters, type(state.optimizer), "checkpoint, optimizer")
        for name, tensors in kept.items():
            state.optimizer.state[parameters[name]] = tensors
        for name in ("step", "tokens", "seconds", "epochs", "smoothed", "lowest", "best", "notes", "position"):
            setattr(state, name, getattr(record, name))
        return state

    @classmethod
    def check(cls, checkpoint: Checkpoint) -> None:
        """Check that a run can resume from a checkpoint; raise a FormatError or ConfigError otherwise."""
        cls.from_checkpoint(checkpoint)

    def _named_parameters(self) -> Iterable[tuple[str, nn.Parameter]]:
        for prefix, module in (("bilm", self.bilm), ("head", self.head)):
            for name, parameter in module.named_parameters():
                yield f"{prefix}.{name}", parameter


def _words_of(tensors: Mapping[str, Tensor]) -> list[str]:
    found = tensors.get("vocabulary")
    if found is None or found.dtype != torch.uint8 or found.dim() != 1:
        raise FormatError("checkpoint: expected the bytes of a vocabulary, found none")
    try:
        return found.numpy().tobytes().decode("utf-8", "surrogatepass").split("\n")
    except UnicodeDecodeError:
        raise FormatError("checkpoint: expected a vocabulary in UTF-8, found other bytes") from None


def _new_head(config: ModelConfig, settings: TrainingSettings, n_words: int) -> Head:
    dim = config.lstm.projection_dim
    if settings.loss == "adaptive":
        return AdaptiveHead(n_words=n_words, dim=dim)  # initialized by its constructor
    head = SoftmaxHead(n_words=n_words, dim=dim)
    head.initialize()
    return head


def _new_optimizer(parameters: list[nn.Parameter], head: Head, settings: TrainingSettings) -> torch.optim.Optimizer:
    if settings.optimizer == "adagrad":
        return adagrad(parameters, head, settings.learning_rate)
    return torch.optim.Adam(parameters, lr=settings.learning_rate, betas=(0.9, 0.99), fused=True)


def adagrad(parameters: Iterable[nn.Parameter], head: Head, learning_rate: float) -> torch.optim.Adagrad:
    """Published optimizer, with the fused kernel of torch, several times faster, where possible."""
    groups: dict[bool, list[nn.Parameter]] = {}
    for parameter in parameters:
        has_sparse_gradient = isinstance(head, SoftmaxHead) and head.sparse and parameter is head.weight
        groups.setdefault(parameter.device.type == "cpu" and not has_sparse_gradient, []).append(parameter)
    kinds = [{"params": group, "fused": fused} for fused, group in groups.items()]
    return torch.optim.Adagrad(kinds, lr=learning_rate, initial_accumulator_value=1.0, eps=0.0)
