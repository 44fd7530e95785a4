"""Settings fields: limits, choices, inheritance, and records of older versions."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pytest

from elmokit.errors import ConfigError, FormatError
from elmokit.training.settings_fields import (
    base_of,
    check,
    choices_of,
    field_metadata,
    flag,
    is_optional,
    option,
    settings_from_json,
)


@dataclass(frozen=True)
class Usual:
    """Settings with one field of every kind."""

    optimizer: Literal["adam", "sgd"] = option("adam", "Optimizer.")
    learning_rate: float = option(0.1, "Peak learning rate.", metavar="X", above=0)
    n_steps: int | None = option(None, "Steps.", minimum=1, maximum=10)
    dropout: float = option(0.5, "Dropout probability.", minimum=0, below=1)
    name: str = option("a", "Name.", hidden=True)
    files: tuple[str, ...] = option((), "Files.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Small(Usual):
    """The same with another default."""

    dropout: float = 0.2


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("optimizer", "adagrad", "adam or sgd"),
        ("learning_rate", 0, "more than 0"),
        ("learning_rate", math.nan, "a number"),
        ("learning_rate", "fast", "a number"),
        ("n_steps", 0, "at least 1"),
        ("n_steps", 11, "at most 10"),
        ("n_steps", 2.0, "an integer"),
        ("n_steps", True, "a number"),
        ("dropout", 1, "less than 1"),
        ("name", 3, "a str"),
        ("files", "a", "a tuple"),
    ],
)
def test_values_out_of_bounds(name: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=f": expected {expected}, found "):
        Small(**{name: value})


def test_a_subclass_inherits_help_and_limits() -> None:
    assert Small().dropout == 0.2
    assert field_metadata(Small, "dropout")["help"] == "Dropout probability."
    assert field_metadata(Small, "dropout")["below"] == 1
    assert field_metadata(Small, "name")["hidden"]


def test_kinds_of_fields() -> None:
    assert is_optional(int | None) and not is_optional(int)
    assert base_of(int | None) is int and base_of(str) is str
    assert choices_of(Literal["a", "b"] | None) == ("a", "b") and choices_of(int) == ()
    assert flag("learning_rate") == "--learning-rate"


def test_records_of_older_versions() -> None:
    values = asdict(Usual(learning_rate=0.3, optimizer="sgd"))
    assert settings_from_json(Usual, values, "run") == Usual(learning_rate=0.3, optimizer="sgd")
    values["optimiser"] = values.pop("optimizer")
    del values["dropout"]
    assert settings_from_json(Usual, values, "run") == Usual(learning_rate=0.3, optimizer="sgd")
    with pytest.raises(FormatError, match="run: expected settings of this version of elmokit, found momentum"):
        settings_from_json(Usual, {"momentum": 1}, "run")
    with pytest.raises(FormatError, match="run: expected settings by name"):
        settings_from_json(Usual, ["adam"], "run")  # type: ignore[arg-type]
