"""Command-line flags from dataclasses of settings: one per field, with its help and its default."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from elmokit.errors import ConfigError
from elmokit.training.settings_fields import (
    FORMER_NAMES,
    base_of,
    choices_of,
    default_of,
    field_metadata,
    flag,
    with_current_names,
)

_METAVARS: dict[Any, str] = {int: "N", float: "X"}  # placeholders in `--help` of fields that have none of their own


def with_settings(
    command: Callable[..., None],
    settings: type,
    *,
    after: str,
    exclude: Collection[str] = (),
    last: Collection[str] = (),
    defaults: Mapping[str, str] | None = None,
) -> Callable[..., None]:
    """Replace the `**values` of a command by one flag per field of `settings`; flags that are not given are None.

    after: the command's own parameter after which `--help` lists the flags. exclude: fields that get no flag. last:
    fields that `--help` lists after the others. defaults: texts that `--help` shows instead of the fields' defaults.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[:-1]  # all but **values
    cut = [parameter.name for parameter in own].index(after) + 1
    flags = list(_flags(settings, exclude, last, defaults or {}))
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own[:cut], *flags, *own[cut:])]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        former = {name for name in FORMER_NAMES.values() if values.get(name) is None}
        command(**with_current_names({name: value for name, value in values.items() if name not in former}))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def shown(value: Any) -> str:
    """A default as `--help` shows it; nothing where there is none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None or value == () else str(value)


def choices_from(texts: Iterable[str], settings: type, exclude: Collection[str]) -> dict[str, list[Any]]:
    """Values to choose from, by setting, of texts such as "dropout=0.2,0.5"; their limits are not checked here."""
    hints, found = get_type_hints(settings), dict[str, list[Any]]()
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        kind = base_of(hints[name]) if name in hints and name not in exclude else None
        if not values or (kind not in (bool, int, float) and not choices_of(kind)):
            raise ConfigError(
                f"--choose: expected a setting with numbers or names, such as dropout=0.2,0.5, found {text!r}"
            )
        if name in found:
            raise ConfigError(f"--choose: expected every setting once, found {flag(name)[2:]} twice")
        found[name] = list(dict.fromkeys(_value(name, part.strip(), kind) for part in values.split(",")))
    return found


def _value(name: str, text: str, kind: Any) -> Any:
    """Value of a field from the text of a flag."""
    known = {"yes": True, "no": False} if kind is bool else {str(value): value for value in choices_of(kind)}
    expected = " or ".join(known) if known else {int: "an integer", float: "a number"}[kind]
    try:
        return known[text] if known else kind(text)
    except (KeyError, ValueError):
        raise ConfigError(f"--choose {flag(name)[2:]}: expected {expected}, found {text!r}") from None


def _flags(
    settings: type, exclude: Collection[str], last: Collection[str], defaults: Mapping[str, str]
) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(settings)
    for item in sorted(fields(settings), key=lambda item: item.name in last):
        if item.name in exclude:
            continue
        about, kind = field_metadata(settings, item.name), base_of(hints[item.name])
        default = defaults.get(item.name, shown(default_of(item)))
        text = about["help"] + (f" [{default}]" if default else "")
        name = f"{flag(item.name)}/--no-{flag(item.name)[2:]}" if kind is bool else flag(item.name)
        kind = list[get_args(kind)[0]] if get_origin(kind) is tuple else kind  # type: ignore[misc]
        metavar = about["metavar"] or _METAVARS.get(kind)
        info = typer.Option(name, help=text, metavar=metavar, hidden=about["hidden"], show_default=False)
        yield _parameter(item.name, kind, info)
        if former := FORMER_NAMES.get(item.name):
            yield _parameter(former, kind, typer.Option(flag(former), help=text, hidden=True))


def _parameter(name: str, kind: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )
