"""Files of columns: a line a token, a blank line between sentences, as the CoNLL tasks have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elmokit.errors import InputError
from elmokit.text.lines import LineReader


@dataclass(frozen=True)
class Block:
    """The lines between two blank lines."""

    line: int  # number of its first row
    rows: list[list[str]]  # the columns of every token
    comments: list[str] = field(default_factory=list)  # comment lines since the block before


def read_blocks(
    path: Path, *, separator: str | None = None, comment: str | tuple[str, ...] | None = None, least: int = 2,
    expected: str = "columns",
) -> Iterator[Block]:  # fmt: skip
    """The blocks of a plain, .gz, .xz, .bz2 or .zst file.

    separator: between columns; None is a tab where a line has one, else spaces. comment: how lines begin that hold no
    token; they end a block. least: columns that a line must have, at the least; `expected` says in the error which.
    Rows of one block have equally many columns, or an InputError names the line.
    """
    rows: list[list[str]] = []
    comments: list[str] = []
    first = 0
    with LineReader(path) as reader:
        for line in reader:
            is_comment = comment is not None and line.startswith(comment)
            if is_comment or not line.strip():
                if rows:
                    yield Block(first, rows, comments)
                    rows, comments = [], []
                if is_comment:
                    comments.append(line)
                continue
            row = _split(line, separator)
            if len(row) < least:
                raise fault(path, reader.line_number, f"at least {least} {expected}", f"{len(row)} in {line[:60]!r}")
            if rows and len(row) != len(rows[0]):
                raise fault(
                    path,
                    reader.line_number,
                    f"{len(rows[0])} columns, as in line {first}",
                    f"{len(row)}: {line[:60]!r}",
                )
            if not rows:
                first = reader.line_number
            rows.append(row)
    if rows:
        yield Block(first, rows, comments)


def _split(line: str, separator: str | None) -> list[str]:
    """The columns of a line; a token may hold white space of other kinds than the separator."""
    if separator is None and "\t" not in line:
        return [column for column in line.split(" ") if column]
    return line.split(separator or "\t")


def fault(path: Path | str, line: int, expected: str, found: str) -> InputError:
    """The error of a broken line: to be raised."""
    return InputError(f"{path}: line {line}: expected {expected}, found {found}")
