"""The figures of the report as one JSON file, for the explorer page: `python -m elmokit.serve.figures REPORT`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from elmokit.disk.whole import new_file
from elmokit.errors import FormatError
from elmokit.serve.pages import PAGE

FIGURES = PAGE / "data" / "paper.json"

Table = list[list[str]]  # rows of cells; the first is the header


def figures(report: str) -> dict[str, Any]:
    """Read the tables of a report that `elmo report` wrote as Markdown.

    Returns JSON values: `tasks` (Table 1), `studies` (Tables 2 and 3, one row per task and source), `scores` (Tables 5
    and 6, paper and ours side by side), `less_data` (Figure 1) and `perplexity`. A score is [mean, standard deviation],
    of which the latter may be null; null as a whole is not measured.
    """
    tables = _tables(report)
    if not any(title.startswith("Table 1") for title, _ in tables):
        raise FormatError("report: expected Markdown of `elmo report` with Table 1, found no such table")
    result: dict[str, Any] = {"tasks": [], "studies": [], "scores": [], "less_data": [], "perplexity": []}
    for title, table in tables:
        header, *rows = table
        if title.startswith("Table 1"):
            result["tasks"] += [_task(row) for row in rows]
        elif title.startswith(("Table 2", "Table 3")):
            result["studies"].append({"title": title, "columns": header[2:], "rows": _study(rows)})
        elif title.startswith(("Table 5", "Table 6")):
            scores = [{"label": label, "paper": _score(paper), "ours": _score(ours)} for label, paper, ours in rows]
            result["scores"].append({"title": title, "column": header[2], "rows": scores})
        elif title.startswith("Figure 1"):
            caption = _alt_texts(report, title)[len(result["less_data"])]
            result["less_data"].append({"title": caption, "rows": [_part(row) for row in rows]})
        elif "perplexity" in title:
            result["perplexity"] += [{"text": row[0], "mean": _score(row[3]), "words": row[5]} for row in rows]
    return result


def _task(row: list[str]) -> dict[str, Any]:
    name, metric, previous, baseline, elmo, _, our_baseline, our_elmo, *_ = row
    return {
        "task": name,
        "metric": metric,
        "paper": {"previous": _score(previous), "baseline": _score(baseline), "elmo": _score(elmo)},
        "ours": {"baseline": _score(our_baseline), "elmo": _score(our_elmo)},
    }


def _study(rows: Table) -> list[dict[str, Any]]:
    found, task = [], ""
    for name, source, *cells in rows:
        task = name or task
        values = [_score(cell) for cell in cells]
        if any(values):
            found.append({"task": task, "source": source, "values": values})
    return found


def _part(row: list[str]) -> dict[str, Any]:
    part, examples, baseline_dev, baseline_test, _, elmo_dev, elmo_test, *_ = row
    return {
        "part": part,
        "examples": int(examples.replace(",", "")),
        "baseline": _score(baseline_test) or _score(baseline_dev),
        "elmo": _score(elmo_test) or _score(elmo_dev),
    }


def _score(cell: str) -> list[float | None] | None:
    """`88.7 ± 0.17` to [88.7, 0.17]; None of a cell without a number."""
    match = re.match(r"([+-]?[\d.]+)(?: ± ([\d.]+))?", cell)
    return None if match is None else [float(match[1]), float(match[2]) if match[2] else None]


def _tables(report: str) -> list[tuple[str, Table]]:
    """All tables, each with the title of its section."""
    found: list[tuple[str, Table]] = []
    title = ""
    table: Table | None = None
    for line in report.splitlines():
        if line.startswith("## "):
            title = line[3:].strip()
        if not line.startswith("|"):
            table = None
            continue
        cells = [cell.strip().replace("\\", "") for cell in line.strip().strip("|").split("|")]
        if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            continue
        if table is None:
            table = []
            found.append((title, table))
        table.append(cells)
    return found


def _alt_texts(report: str, title: str) -> list[str]:
    """Alternative texts of the pictures in a section."""
    section = report.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"!\[(.*?)\]", section)


def main(report: Path, target: Path = FIGURES) -> None:
    """Write the JSON file of a report."""
    text = json.dumps(figures(report.read_text(encoding="utf-8")), ensure_ascii=False, indent=1)
    with new_file(target) as fresh:
        fresh.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
