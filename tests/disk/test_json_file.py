"""Validated JSON: limits of the text, types of dataclasses, and files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.disk import limits
from elmokit.disk.json_file import from_json, parse_json, read_bytes, read_json, strict_loads, write_json
from elmokit.disk.limits import Limits
from elmokit.errors import FormatError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_json_writes_is_read(value: Any) -> None:
    finite = not any(number in json.dumps(value) for number in ("Infinity",))
    assert parse_json(json.dumps(value), "x", finite=finite) == value


@given(st.text() | st.binary())
def test_any_text_is_json_or_one_clear_line(text: str | bytes) -> None:
    try:
        parse_json(text, "the file")
    except FormatError as error:
        assert str(error).startswith("the file: expected JSON, found ") and "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NaN", "the number NaN"),
        ("[-Infinity]", "the number -Infinity"),
        ("1e999", "the number 1e999"),
        (f"{2**63}", "an integer of 19 digits"),
        ("9" * 10_000, "an integer of 10000 digits"),
        ("[" * 51 + "]" * 51, "more than 50 nested lists"),
        ("[" * 100_000, "more than 50 nested lists"),
        (b"\xff", "'utf-8' codec"),
        ("{", "Expecting property name"),
    ],
)
def test_texts_that_are_refused(text: str | bytes, found: str) -> None:
    with pytest.raises(FormatError, match=rf"x: expected JSON, found {found}"):
        parse_json(text, "x")


def test_the_largest_that_is_accepted() -> None:
    assert strict_loads(f"[{2**63 - 1}, {-(2**63)}]") == [2**63 - 1, -(2**63)]
    assert strict_loads("[" * 50 + "]" * 50) is not None
    assert parse_json(b"\xef\xbb\xbf[1]", "with a byte order mark") == [1]
    assert strict_loads("[Infinity]", finite=False) == [float("inf")]
    with pytest.raises(ValueError, match="more than 2 nested"):
        strict_loads("[[[]]]", depth=2)


@dataclass(frozen=True)
class Inner:
    name: str
    size: float = 1.5


@dataclass(frozen=True)
class Outer:
    """A field of every kind."""

    inner: Inner
    count: int | None = None
    pair: tuple[int, str] = (0, "")
    many: tuple[Inner, ...] = ()
    numbers: list[float] = field(default_factory=list)
    kind: Literal["a", "b", 3] = "a"
    table: Mapping[str, int] = field(default_factory=dict)
    either: int | float = 0
    anything: Any = None


def test_a_dataclass_of_every_kind() -> None:
    text = """{"inner": {"name": "x", "size": 2}, "count": 3, "pair": [1, "y"], "many": [{"name": "z"}],
        "numbers": [1, 2.5], "kind": 3, "table": {"k": 1}, "either": 7, "anything": [null]}"""
    outer = from_json(Outer, json.loads(text), "o")
    assert outer == Outer(Inner("x", 2.0), 3, (1, "y"), (Inner("z"),), [1.0, 2.5], 3, {"k": 1}, 7, [None])
    assert isinstance(outer.inner.size, float) and isinstance(outer.either, int)
    assert from_json(Outer, {"inner": {"name": "x"}}, "o") == Outer(Inner("x"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inner": None}, "o, 'inner': expected an object, found None"),
        ({"inner": {}}, "o, 'inner': expected 'name', found none"),
        ({"inner": {"name": 3}}, "o, 'inner', 'name': expected str, found 3"),
        ({"count": True}, "o, 'count': expected NoneType, found True"),
        ({"count": 1.0}, "o, 'count': expected NoneType, found 1.0"),
        ({"pair": [1]}, "o, 'pair': expected 2 items, found 1"),
        ({"pair": ["y", 1]}, "o, 'pair', item 0: expected int, found 'y'"),
        ({"many": [{"name": "z"}, 1]}, "o, 'many', item 1: expected an object, found 1"),
        ({"numbers": {}}, "o, 'numbers': expected a list, found dict"),
        ({"kind": "c"}, "o, 'kind': expected a or b or 3, found 'c'"),
        ({"kind": 3.0}, "o, 'kind': expected a or b or 3, found 3.0"),
        ({"table": []}, "o, 'table': expected an object, found list"),
        ({"table": {"k": "v"}}, "o, 'table', 'k': expected int, found 'v'"),
        ({"color": 1}, "o: expected no 'color', found it"),
        ({"kind": "x" * 1000}, "o, 'kind': expected a or b or 3, found 'x{59}$"),
    ],
)
def test_the_place_of_a_wrong_value_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        from_json(Outer, {"inner": {"name": "x"}, **change}, "o")


def test_a_file_there_and_back(tmp_path: Path) -> None:
    value = {"text": "눈 \ud800", "number": 1.5, "not a number": float("inf")}
    write_json(tmp_path / "f.json", value)
    stored = (tmp_path / "f.json").read_text(encoding="utf-8")
    assert "눈" in stored and stored.endswith("}\n")
    assert read_json(tmp_path / "f.json", finite=False) == value
    with pytest.raises(FormatError, match=r"f\.json: expected JSON, found the number Infinity"):
        read_json(tmp_path / "f.json")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "f.json", value, finite=True)
    assert read_json(tmp_path / "f.json", finite=False) == value  # the old file is kept


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="missing: expected a file, found nothing there"):
        read_bytes(tmp_path / "missing")
    with pytest.raises(FormatError, match="expected a file, found something else"):
        read_bytes(tmp_path)
    (tmp_path / "large").write_bytes(bytes(101))
    with pytest.raises(FormatError, match=r"large: expected at most 100 bytes, found more; .* raise the limits"):
        read_bytes(tmp_path / "large", 100)
    monkeypatch.setattr(limits, "_limits", Limits(text=100))
    with pytest.raises(FormatError, match="large: expected at most 100 bytes"):
        read_json(tmp_path / "large")
    assert len(read_bytes(tmp_path / "large", 101)) == 101
