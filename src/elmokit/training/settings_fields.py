"""Settings dataclasses whose fields declare default, help text and limits.

A field is declared once, with `option`. The command line derives its flag from it (`elmokit.cli.setting_flags`),
`check` validates its value, and `settings_from_json` reads it from the record of an older run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmokit.disk import json_file
from elmokit.errors import ConfigError, FormatError

# Former British spellings of fields: old files are still read, and the old flags are hidden aliases.
FORMER_NAMES = {"optimizer": "optimiser"}

_NO_LIMITS = {"minimum": None, "above": None, "below": None, "maximum": None}


def option(
    default: Any,
    help: str,
    *,
    metavar: str | None = None,
    hidden: bool = False,
    minimum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    maximum: float | None = None,
) -> Any:
    """Settings field with default, help text and limits.

    A subclass changes the default with `name: type = value`; help and limits are inherited.
    metavar: placeholder of the value in `--help`; hidden: omit the flag from `--help`.
    """
    limits = {"minimum": minimum, "above": above, "below": below, "maximum": maximum}
    return field(default=default, metadata={"help": help, "metavar": metavar, "hidden": hidden, **limits})


def check(settings: Any) -> None:
    """Raise a ConfigError for an invalid value; the message names the flag."""
    hints = get_type_hints(type(settings))
    for item in fields(settings):
        name, value, kind = item.name, getattr(settings, item.name), hints[item.name]
        if value is None and is_optional(kind):
            continue
        base = base_of(kind)
        if choices := choices_of(kind):
            require(value in choices, name, " or ".join(map(str, choices)), value)
        elif base in (int, float):
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            require(number, name, "a number", value)
            require(base is float or isinstance(value, int), name, "an integer", value)
            limits = field_metadata(type(settings), name)
            if (minimum := limits["minimum"]) is not None:
                require(value >= minimum, name, f"at least {minimum:g}", value)
            if (above := limits["above"]) is not None:
                require(value > above, name, f"more than {above:g}", value)
            if (below := limits["below"]) is not None:
                require(value < below, name, f"less than {below:g}", value)
            if (maximum := limits["maximum"]) is not None:
                require(value <= maximum, name, f"at most {maximum:g}", value)
        else:
            outer = get_origin(base) or base
            require(isinstance(value, outer), name, f"a {outer.__name__}", value)


def require(holds: bool, name: str, expected: str, actual: object) -> None:
    """Raise a ConfigError for the field `name` unless the condition holds."""
    if not holds:
        raise ConfigError(f"{flag(name)}: expected {expected}, found {actual!r}")


def field_metadata(cls: type, name: str) -> Mapping[str, Any]:
    """Help and limits of a field, inherited from the class that declares them."""
    for parent in cls.__mro__:
        found: Field[Any] | None = parent.__dict__.get("__dataclass_fields__", {}).get(name)
        if found is not None and found.metadata:
            return found.metadata
    return {"help": "", "metavar": None, "hidden": False, **_NO_LIMITS}


def default_of(item: Field[Any]) -> Any:
    """Default of a field; all settings fields have one."""
    assert item.default is not MISSING
    return item.default


def is_optional(kind: Any) -> bool:
    """Whether a field may be None."""
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)


def base_of(kind: Any) -> Any:
    """Type of a field without None."""
    return next(part for part in get_args(kind) if part is not NoneType) if is_optional(kind) else kind


def choices_of(kind: Any) -> tuple[Any, ...]:
    """Values of a Literal type; empty for other types."""
    base = base_of(kind)
    return get_args(base) if get_origin(base) is Literal else ()


def flag(name: str) -> str:
    """Command-line flag of a field."""
    return f"--{name.replace('_', '-')}"


AnySettings = TypeVar("AnySettings")


def settings_from_json(cls: type[AnySettings], values: Mapping[str, Any], where: str) -> AnySettings:
    """Settings from the JSON of `dataclasses.asdict`; `where` names the file in errors.

    Fields that are missing in older files get their defaults. Unknown fields are an error.
    """
    if not isinstance(values, Mapping):
        raise FormatError(f"{where}: expected settings by name, found {values!r}")
    values = with_current_names(values)
    known = {item.name for item in fields(cls)}  # type: ignore[arg-type]
    if unknown := values.keys() - known:
        raise FormatError(
            f"{where}: expected settings of this version of elmokit, found {', '.join(sorted(unknown))}; "
            "use the version that wrote it, or a newer one"
        )
    return json_file.from_json(cls, values, where)


def with_current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Rename fields that have former names to their current names."""
    current = {old: new for new, old in FORMER_NAMES.items()}
    return {current.get(name, name): value for name, value in values.items()}
