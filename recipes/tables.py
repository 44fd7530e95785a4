"""Figures and tables of the pages, from docs/results/*.json.

    python recipes/tables.py            rewrite the marked figures and tables (make tables)
    python recipes/tables.py --check    list the marked figures that differ from their results, and fail

A figure stands between two comments, which name the file, the keys inside its `numbers`, and the format:

    <!-- result: quality.json encoders/base/pos/clean:.1f -->93.0<!-- /result -->

A table stands between two comments on lines of their own; its text is `numbers["table"]` of the file, or what
result_tables.py makes of a kind of results, also from several files:

    <!-- table: quality.json -->
    <!-- /table -->
    <!-- table: probe-ewt-xpos.json probe-ewt-upos.json -->
    <!-- /table -->
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from result_tables import KINDS

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/**/*.md", "benchmarks/*.md", "src/elmokit/models/**/README.md", "languages/*/*/README.md")
RESULT = re.compile(r"(<!-- result: (\S+) (.+?) -->)(.*?)(<!-- /result -->)")
TABLE = re.compile(r"(<!-- table: (\S+(?: \S+)*) -->\n)(.*?)(<!-- /table -->)", re.DOTALL)


class MarkError(ValueError):
    """A mark that names no result, or that is not closed."""


def pages(root: Path = ROOT) -> Iterator[Path]:
    """The pages that may have marks."""
    for pattern in PAGES:
        yield from sorted(root.glob(pattern))


def rewritten(text: str, folder: Path) -> tuple[str, list[str]]:
    """The text of a page with current figures, and what changed. folder: of the results files."""
    changes: list[str] = []

    def figure(match: re.Match[str]) -> str:
        start, file, key, old, end = match.groups()
        new = shown(numbers(folder / file), key, file)
        if old != new:
            changes.append(f"{file} {key}: the page has {old!r}, the results have {new!r}")
        return f"{start}{new}{end}"

    def table(match: re.Match[str]) -> str:
        start, names, old, end = match.groups()
        lines = table_lines([folder / name for name in names.split()])
        new = "".join(f"{line}\n" for line in ["", *lines, ""])  # some renderers need the empty lines
        if old != new:
            changes.append(f"{names}: the page has another table than the results")
        return f"{start}{new}{end}"

    for kind, pattern in (("result", RESULT), ("table", TABLE)):
        if text.count(f"<!-- {kind}:") != len(pattern.findall(text)):
            raise MarkError(f"expected <!-- {kind}: FILE ... --> and <!-- /{kind} --> in pairs, found one alone")
    return TABLE.sub(table, RESULT.sub(figure, text)), changes


def read(path: Path) -> dict[str, Any]:
    """A results file."""
    if not path.is_file():
        raise MarkError(f"{path.name}: expected results in {path.parent}, found none")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def numbers(path: Path) -> dict[str, Any]:
    """The numbers of a results file."""
    return dict(read(path)["numbers"])


def table_lines(paths: list[Path]) -> list[str]:
    """The table of a results file, or the one that result_tables.py makes of files of one kind."""
    files = [read(path) for path in paths]
    kind, lines = files[0]["kind"], files[0]["numbers"].get("table")
    if len(files) == 1 and isinstance(lines, list):
        return lines
    if kind not in KINDS or any(file["kind"] != kind for file in files):
        names = " ".join(path.name for path in paths)
        raise MarkError(f"{names}: expected a table in its numbers, or files of {' or '.join(KINDS)}, found {kind}")
    return KINDS[kind]([file["numbers"] for file in files])


def shown(found: Any, key: str, file: str) -> str:
    """The figure that a key such as `encoders/base/pos/clean:.1f` names."""
    path, _, form = key.rpartition(":") if ":" in key else (key, "", "")
    for part in path.split("/"):
        try:
            found = found[int(part)] if isinstance(found, list) else found[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise MarkError(f"{file}: expected {path} in its numbers, found no {part!r}") from None
    try:
        return format(found, form)
    except (ValueError, TypeError):
        raise MarkError(f"{file}: expected a number at {path} for the format {form!r}, found {found!r}") from None


def main() -> int:
    """Rewrite the pages, or check them."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(f"tables: expected --check or nothing, found {' '.join(sys.argv[1:])}", file=sys.stderr)
        return 2
    n_changes = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        try:
            new, changes = rewritten(text, ROOT / "docs" / "results")
        except MarkError as error:
            print(f"{page.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 2
        for change in changes:
            print(f"{page.relative_to(ROOT)}: {change}")
        n_changes += len(changes)
        if changes and not check:
            page.write_text(new, encoding="utf-8", newline="\n")
    return int(check and n_changes > 0)


if __name__ == "__main__":
    sys.exit(main())
