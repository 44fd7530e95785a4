"""What every task can be told: how text enters, and how the network is fitted. Every field is a flag of `train`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmokit.errors import ConfigError, FormatError

Place = Literal["input", "output", "both"]
Mix = Literal["all", "top"]
Optimiser = Literal["adam", "adadelta"]
Decay = Literal["none", "plateau", "linear"]


def option(
    default: Any, help: str, *, minimum: float | None = None, below: float | None = None, maximum: float | None = None
) -> Any:
    """A field of a task's settings: its default, what `--help` says of it, and the values that it may have.

    A subclass gives a field another default by `name: type = value`; help and limits are inherited.
    """
    return field(default=default, metadata={"help": help, "minimum": minimum, "below": below, "maximum": maximum})


@dataclass(frozen=True)
class InputSettings:
    """How the tokens of a task become vectors."""

    elmo: bool = option(True, "Use ELMo.")
    model: str | None = option(None, "The biLM: a folder, file or zip; by default the packaged one.")
    state: Literal["reset", "warm"] | None = option(
        None, "What every sentence starts from: zero, or one fixed warm state. By default what suits the model."
    )
    elmo_at: Place = option("input", "Where ELMo is added, each place with a mix of its own.")
    mix: Mix = option("all", "All layers of the biLM with learnt weights, or the top one alone.")
    mix_l2: float = option(0.0, "Strength of the L2 term that keeps the weights of the layers alike.", minimum=0)
    elmo_dropout: float = option(0.5, "Share of ELMo's numbers dropped.", minimum=0, below=1)
    layer_norm: bool = option(False, "Normalise every layer before it is mixed.")
    finetune_bilm: bool = option(False, "Train the biLM too, from its own weights; slow.")
    bilm_learning_rate: float = option(1e-4, "Of the biLM, with --finetune-bilm.", minimum=0)
    vectors: str | None = option(None, "Word vectors: GloVe text, word2vec text or binary, also compressed.")
    train_vectors: bool = option(False, "Train the word vectors of words in the training data too.")
    word_dim: int = option(100, "Without --vectors: size of the word vectors, which are then learnt.", minimum=0)
    character_filters: int = option(0, "Filters of a character CNN that is learnt with the task; 0 is none.", minimum=0)
    character_dim: int = option(16, "Size of its character vectors.", minimum=1)
    character_width: int = option(3, "Characters that a filter sees.", minimum=1)

    def __post_init__(self) -> None:
        check(self)

    @property
    def places(self) -> tuple[Literal["input", "output"], ...]:
        """Where ELMo is added: none, one or two of "input" and "output"."""
        if not self.elmo:
            return ()
        return ("input", "output") if self.elmo_at == "both" else (self.elmo_at,)


@dataclass(frozen=True)
class FitSettings(InputSettings):
    """And how the network is fitted. A task's own settings inherit from this."""

    epochs: int = option(50, "Passes over the training data, at most.", minimum=1)
    patience: int = option(10, "Epochs without a better dev score after which training ends.", minimum=1)
    batch_size: int = option(32, "Examples of a batch.", minimum=1)
    optimiser: Optimiser = option("adam", "How the weights are updated.")
    learning_rate: float = option(1e-3, "At its highest.", minimum=0)
    warm_up: int = option(0, "Steps in which the learning rate rises to that.", minimum=0)
    decay: Decay = option("plateau", "How it falls: not; whenever the dev score stands still; or steadily to zero.")
    decay_factor: float = option(0.5, "With --decay plateau: what it is multiplied by.", minimum=0)
    decay_patience: int = option(3, "With --decay plateau: epochs without a better score before that.", minimum=1)
    clip: float = option(5.0, "Longest gradient.", minimum=0)
    dropout: float = option(0.5, "Share of numbers dropped in the network.", minimum=0, below=1)
    train_fraction: float = option(
        1.0, "Share of the training data that is used: a random part, which --seed decides.", minimum=0, maximum=1
    )
    hold_out: float = option(0.1, "Without --dev: share of the training data to validate on.", minimum=0, below=1)
    seed: int = option(0, "Of all random numbers.", minimum=0, maximum=2**63 - 1)


def check(settings: InputSettings) -> None:
    """Refuse values that cannot work; the message names the flag."""
    hints = get_type_hints(type(settings))
    for item in fields(settings):
        name, value, kind = item.name, getattr(settings, item.name), hints[item.name]
        if value is None and is_optional(kind):
            continue
        if choices := choices_of(kind):
            _require(value in choices, name, " or ".join(map(str, choices)), value)
        elif base_of(kind) in (int, float):
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            _require(number, name, "a number", value)
            _require(base_of(kind) is float or isinstance(value, int), name, "an integer", value)
            minimum, below, maximum = (described(type(settings), name)[key] for key in ("minimum", "below", "maximum"))
            if minimum is not None:
                _require(value >= minimum, name, f"at least {minimum:g}", value)
            if below is not None:
                _require(value < below, name, f"less than {below:g}", value)
            if maximum is not None:
                _require(value <= maximum, name, f"at most {maximum:g}", value)
        else:
            _require(isinstance(value, base_of(kind)), name, f"a {base_of(kind).__name__}", value)


def described(cls: type, name: str) -> Mapping[str, Any]:
    """Help and limits of a field, from where they were first said."""
    for parent in cls.__mro__:
        found: Field[Any] | None = parent.__dict__.get("__dataclass_fields__", {}).get(name)
        if found is not None and found.metadata:
            return found.metadata
    return {"help": "", "minimum": None, "below": None, "maximum": None}


def default_of(item: Field[Any]) -> Any:
    """The default of a field; all fields of settings have one."""
    assert item.default is not MISSING
    return item.default


def is_optional(kind: Any) -> bool:
    """Whether a field may be None."""
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)


def base_of(kind: Any) -> Any:
    """The type of a field that is not None."""
    return next(part for part in get_args(kind) if part is not NoneType) if is_optional(kind) else kind


def choices_of(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal; nothing for other types."""
    base = base_of(kind)
    return get_args(base) if get_origin(base) is Literal else ()


def flag(name: str) -> str:
    """How the command line calls a field."""
    return f"--{name.replace('_', '-')}"


AnySettings = TypeVar("AnySettings", bound=InputSettings)


def from_json(cls: type[AnySettings], values: Mapping[str, Any], where: str) -> AnySettings:
    """What `dataclasses.asdict` gave, after a way through JSON."""
    known = {item.name for item in fields(cls)}
    if values.keys() != known:
        odd = ", ".join(sorted(values.keys() ^ known))
        raise FormatError(f"{where}: expected the settings of this version of elmokit, found a difference in {odd}")
    return cls(**values)


def _require(holds: bool, name: str, expected: str, actual: object) -> None:
    if not holds:
        raise ConfigError(f"{flag(name)}: expected {expected}, found {actual!r}")
