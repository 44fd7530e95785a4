"""Validated JSON: checks of the text (UTF-8, depth, sizes of numbers) and against a dataclass.

Files written by elmokit are checked like any others: they may be damaged or edited. (Without msgspec or pydantic: for
our own small dataclasses seventy lines suffice, and need no compiled dependency.)
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from elmokit.disk.limits import exceeded, limits
from elmokit.disk.whole import new_file
from elmokit.errors import FormatError, first_line

T = TypeVar("T")

DEPTH = 50  # maximum nesting of lists and objects
_LARGEST = 2**63  # integers must fit into int64


def parse_json(text: str | bytes, label: str, *, finite: bool = True, depth: int = DEPTH) -> Any:
    """Parse JSON; raise a FormatError that starts with `label` if the text is invalid.

    finite: reject NaN and Infinity, which Python's `json` accepts although JSON has no such numbers.
    """
    try:
        return strict_loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text, finite=finite, depth=depth)
    except ValueError as error:  # also undecodable bytes
        raise FormatError(f"{label}: expected JSON, found {first_line(error)}") from None


def strict_loads(text: str, *, finite: bool = True, depth: int = DEPTH) -> Any:
    """`json.loads` with limits; raises a JSONDecodeError for a syntax error, else a ValueError that says what it found.

    finite, depth: as in `parse_json`.
    """

    def constant(name: str) -> float:
        if finite:
            raise ValueError(f"the number {name}")
        return float(name)

    def integer(digits: str) -> int:
        if len(digits) > 20 or not -_LARGEST <= (value := int(digits)) < _LARGEST:
            raise ValueError(f"an integer of {len(digits)} digits")
        return value

    def number(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError(f"the number {digits[:20]}")
        return value

    try:
        value = json.loads(text, parse_constant=constant, parse_int=integer, parse_float=number)
    except RecursionError:
        value = None
    else:
        if _is_shallow(value, depth):
            return value
    raise ValueError(f"more than {depth} nested lists")


def read_json(path: Path, *, finite: bool = True) -> Any:
    """Read and parse a JSON file."""
    return parse_json(read_bytes(path), str(path), finite=finite)


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """Read a regular file of limited size."""
    limit = limits().text if limit is None else limit
    try:
        if not path.is_file():
            found = "something else" if path.exists() else "nothing there"
            raise FormatError(f"{path}: expected a file, found {found}")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(min(size, limit) + 1)  # `read` allocates this many bytes at once
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(content) > limit:
        raise exceeded(str(path), f"expected at most {limit:,} bytes, found more")
    return content


def write_json(path: Path, value: Any, *, replace: bool = True, finite: bool = False, advice: str = "") -> None:
    """Write an indented JSON file, atomically.

    replace, advice: as in `new_file`. finite: raise a ValueError for NaN and infinity.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=not finite)
    with new_file(path, replace=replace, advice=advice) as fresh:
        fresh.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")  # escapes lone surrogates


def from_json(kind: type[T], value: Any, where: str) -> T:
    """Convert a JSON value to a type: dataclass, tuple, list, dictionary, union, literal, number or text.

    Missing fields get their defaults. Any other mismatch is a FormatError that names the place in the value.
    """
    return cast(T, _checked(kind, value, where))


def _checked(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _dataclass(cast(type, kind), value, where)
    if origin in (Union, UnionType):
        return _union(arguments, value, where)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
        raise _wrong(where, " or ".join(map(str, arguments)), value)
    if origin in (list, tuple) or kind in (list, tuple):
        return _sequence(origin or kind, arguments, value, where)
    if origin in (dict, Mapping) or kind is dict or getattr(origin, "__name__", "") == "Mapping":
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        item = arguments[1] if arguments else Any
        return {key: _checked(item, each, f"{where}, {key!r}") for key, each in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (int, float, str, bool, NoneType) and type(value) is kind:
        return value
    raise _wrong(where, getattr(kind, "__name__", str(kind)), value)


def _dataclass(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    hints = get_type_hints(kind)
    known = {item.name: item for item in fields(kind)}
    if unknown := sorted(value.keys() - known.keys()):
        raise FormatError(f"{where}: expected no {unknown[0]!r}, found it; is it from another version of elmokit?")
    for name, item in known.items():
        if name not in value and item.default is MISSING and item.default_factory is MISSING:
            raise FormatError(f"{where}: expected {name!r}, found none")
    return kind(**{name: _checked(hints[name], each, f"{where}, {name!r}") for name, each in value.items()})


def _union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    for kind in sorted(kinds, key=lambda kind: kind is float):  # an integer stays an integer if both are allowed
        try:
            return _checked(kind, value, where)
        except FormatError as error:
            last = error
    raise last


def _sequence(kind: type, arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    if not isinstance(value, (list, tuple)):
        raise _wrong(where, "a list", value)
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise FormatError(f"{where}: expected {len(arguments)} items, found {len(value)}")
        kinds: Any = arguments
    else:
        kinds = [arguments[0] if arguments else Any] * len(value)
    pairs = enumerate(zip(kinds, value, strict=True))
    return kind(_checked(item, each, f"{where}, item {k}") for k, (item, each) in pairs)


def _wrong(where: str, expected: str, value: Any) -> FormatError:
    found = repr(value) if isinstance(value, (int, float, str, bool, NoneType)) else type(value).__name__
    return FormatError(f"{where}: expected {expected}, found {found[:60]}")


def _is_shallow(value: Any, depth: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(depth):
        inner = (each for outer in level for each in (outer.values() if isinstance(outer, dict) else outer))
        level = [each for each in inner if isinstance(each, (dict, list))]
        if not level:
            return True
    return not level
