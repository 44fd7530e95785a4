"""CoNLL column files: one token per line, blank lines between sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elmokit.errors import InputError
from elmokit.text.lines import LineReader


@dataclass(frozen=True)
class Block:
    """Lines between two blank lines: one sentence."""

    line: int  # line number of the first row
    rows: list[list[str]]  # the columns of every token
    comments: list[str] = field(default_factory=list)  # comment lines before the block


def read_blocks(
    path: Path,
    *,
    separator: str | None = None,
    comment: str | tuple[str, ...] | None = None,
    least: int = 2,
    expected: str = "columns",
) -> Iterator[Block]:
    """Read the blocks of a plain, .gz, .xz, .bz2 or .zst file.

    separator: column separator; None is a tab if the line has one, else spaces. comment: prefix of comment lines, which
    end a block. least: minimum number of columns; `expected` describes them in the error. All rows of a block must have
    the same number of columns, otherwise an InputError names the line.
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
    """Split a line into columns; a token may contain other white space than the separator."""
    if separator is None and "\t" not in line:
        return [column for column in line.split(" ") if column]
    return line.split(separator or "\t")


def fault(path: Path | str, line: int, expected: str, found: str) -> InputError:
    """Create the error for a malformed line."""
    return InputError(f"{path}: line {line}: expected {expected}, found {found}")
