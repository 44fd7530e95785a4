"""All that a training run can be told, in one place; every field is a flag of `elmo pretrain`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from elmokit.errors import ConfigError
from elmokit.text.lines import EncodingErrors

Optimiser = Literal["adam", "adagrad"]
Decay = Literal["none", "linear", "cosine"]
LossKind = Literal["full", "sampled", "adaptive"]
Precision = Literal["auto", "float32", "bfloat16"]

# What may differ between a run and its resumption: how long it goes on, how often it looks up, where it computes, and
# the size of a batch, which may well grow while a run matures or when there are more processes to share it.
CHANGEABLE = (
    "epochs", "steps", "minutes", "heldout_every", "checkpoint_every", "log_every", "precision", "batch_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingSettings:
    """How to train. One of `epochs`, `steps` and `minutes` says how long; the learning rate falls over that time."""

    preset: str | None = None  # where the shape and the other settings are from
    options: str | None = None  # file with another shape, as a published options.json

    # the text
    train: tuple[str, ...] = ()  # files or patterns, one sentence a line
    heldout: str | None = None  # file whose perplexity decides which weights are the best
    tokenizer: str = "spaces"  # how a line becomes tokens: spaces, words, spacy:xx
    encoding_errors: EncodingErrors = "strict"  # what to do about bytes that are not UTF-8
    max_sentence: int = 200  # tokens; longer sentences are cut into pieces
    vocabulary: str | None = None  # file of words to predict; None builds it from the text
    vocabulary_size: int = 50_000  # words of a vocabulary that is built, marks included

    # how long
    epochs: float | None = 1.0  # passes over the text
    steps: int | None = None  # updates of the weights
    minutes: float | None = None  # of training, over all resumptions; such a run cannot be repeated bit for bit

    # the step
    batch_tokens: int = 2_560  # tokens of a batch, over all processes
    accumulate: int = 1  # batches whose gradients make one update
    loss: LossKind = "full"  # softmax over all words, over a sample, or in tiers
    n_samples: int = 8_192  # words of a sample
    dropout: float = 0.1  # on the input of every LSTM and on the top output
    seed: int = 0  # of the first weights, the order of the text, dropout and samples
    precision: Precision = "auto"  # of the matrix products: bfloat16 where the device is made for it

    # the optimiser
    optimiser: Optimiser = "adam"
    learning_rate: float = 2e-3  # at its highest
    warm_up: int = 100  # steps in which it rises to that
    decay: Decay = "cosine"  # how it falls to zero afterwards
    clip: float = 1.0  # a longer gradient is scaled down to this norm
    loss_scale: float = 1.0  # the gradient is that of the mean loss times this: matters to adagrad, and to the clip
    frozen: bool = False  # train the softmax alone

    # the record
    heldout_every: int = 1_000  # steps between two looks at the held-out text
    checkpoint_every: int = 500  # steps between two checkpoints
    log_every: int = 10  # steps between two lines of metrics

    def __post_init__(self) -> None:
        budgets = [name for name in ("epochs", "steps", "minutes") if getattr(self, name) is not None]
        if len(budgets) != 1:
            found = " and ".join(map(flag, budgets)) or "none"
            raise ConfigError(f"--epochs: expected one of --epochs, --steps and --minutes, found {found}")
        for name in (
            "max_sentence", "batch_tokens", "accumulate", "n_samples", "heldout_every", "checkpoint_every", "log_every",
        ):  # fmt: skip
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in (*budgets, "learning_rate", "clip", "loss_scale"):
            value = getattr(self, name)
            self._require(name, math.isfinite(value) and value > 0, "a positive number")
        self._require("vocabulary_size", self.vocabulary_size >= 4, "at least 4 (three marks and a word)")
        self._require("dropout", 0 <= self.dropout < 1, "0 to less than 1")
        for name in ("seed", "warm_up"):
            self._require(name, 0 <= getattr(self, name) < 2**63, "0 or more, and less than 2^63")
        for name, kind in (
            ("optimiser", Optimiser), ("decay", Decay), ("loss", LossKind), ("precision", Precision),
            ("encoding_errors", EncodingErrors),
        ):  # fmt: skip
            self._require(name, getattr(self, name) in get_args(kind), " or ".join(get_args(kind)))

    def _require(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise ConfigError(f"{flag(name)}: expected {expected}, found {getattr(self, name)!r}")

    def changed(self, **given: Any) -> TrainingSettings:
        """The same with what was given (None is not), a new length of the run replacing the old."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if given.keys() & {"epochs", "steps", "minutes"}:
            values |= {"epochs": None, "steps": None, "minutes": None}
        return TrainingSettings(**(values | given))

    def resumed(self, **given: Any) -> TrainingSettings:
        """The settings of a run that goes on; anything given that would make it another run is an error."""
        new = self.changed(**given)
        differences = [
            f"{flag(field.name)} {getattr(self, field.name)} in the run, {getattr(new, field.name)} now"
            for field in fields(self)
            if field.name not in CHANGEABLE and getattr(self, field.name) != getattr(new, field.name)
        ]
        if differences:
            raise ConfigError(
                f"--resume: expected the settings of the run, found {'; '.join(differences)}; leave them out, or begin "
                "another run with another -o"
            )
        return new

    def learning_rate_at(self, step: int, done: float) -> float:
        """The rate of the step that follows `step` others, when the fraction `done` of the run is over."""
        rising = min(1.0, (step + 1) / (self.warm_up + 1))
        done = min(1.0, done)
        falling = {"none": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[self.decay]
        return self.learning_rate * rising * falling

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingSettings:
        """What `dataclasses.asdict` gave, after a way through JSON."""
        return cls(**{**values, "train": tuple(values["train"])})


def flag(name: str) -> str:
    """How the command line calls a field."""
    return f"--{name.replace('_', '-')}"
