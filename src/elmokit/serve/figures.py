"""The figures of the report as one JSON file, for the explorer page: `python -m elmokit.serve.figures REPORT`."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmokit.disk.whole import new_file
from elmokit.errors import FormatError
from elmokit.serve.pages import PAGE

FIGURES = PAGE / "data" / "paper.json"

# What the tags of a probe are, by data set and column.
TAGS = {
    ("conll2000", "2"): "Penn Treebank tags, CoNLL-2000",
    ("conll2000", "3"): "chunk tags, CoNLL-2000",
    ("ud-ewt", "upos"): "universal tags, UD English EWT",
    ("ud-ewt", "xpos"): "Penn Treebank tags, UD English EWT",
}

Table = list[list[str]]  # rows of cells; the first is the header


@dataclass
class ReportTable:
    """A table of a report with what stands around it."""

    title: str  # of its section
    before: str  # the line before the table
    rows: Table = field(default_factory=list)
    command: str = ""  # that made it


def figures(report: str) -> dict[str, Any]:
    """Read the tables of a report that `elmo report` wrote as Markdown.

    Returns JSON values: `tasks` (Table 1), `studies` (Tables 2 and 3, one row per task and source), `neighbors` (Table
    4), `scores` (Tables 5 and 6, paper and ours side by side), `less_data` (Figure 1), `layer_weights` (Figure 2) and
    `perplexity`. A score is [mean, standard deviation], of which the latter may be null; a null score was not measured.
    """
    tables = _tables(report)
    if not any(table.title.startswith("Table 1") for table in tables):
        raise FormatError("report: expected Markdown of `elmo report` with Table 1, found no such table")
    names = ("tasks", "studies", "neighbors", "scores", "less_data", "layer_weights", "perplexity")
    result: dict[str, Any] = {name: [] for name in names}
    for table in tables:
        title, (header, *rows) = table.title, table.rows
        if title.startswith("Table 1"):
            result["tasks"] += [_task(row) for row in rows]
        elif title.startswith(("Table 2", "Table 3")):
            result["studies"].append({"title": title, "columns": header[2:], "rows": _study(rows)})
        elif title.startswith("Table 4"):
            result["neighbors"].append(_neighbors(table))
        elif title.startswith(("Table 5", "Table 6")):
            scores = [{"label": label, "paper": _score(paper), "ours": _score(ours)} for label, paper, ours in rows]
            result["scores"].append({"title": title, "measured": _measured(table), "rows": scores})
        elif title.startswith("Figure 1"):
            caption = _alt_texts(report, title)[len(result["less_data"])]
            result["less_data"].append({"title": caption, "rows": [_part(row) for row in rows]})
        elif "perplexity" in title:
            result["perplexity"] += [{"text": row[0], "mean": _score(row[3]), "words": row[5]} for row in rows]
    result["layer_weights"] = _layer_weights(report)
    return result


def _neighbors(table: ReportTable) -> dict[str, Any]:
    """Occurrences nearest to a word in a sentence, per layer; and the nearest words of static vectors."""
    match = re.fullmatch(r"Ours: nearest to (.*) among ([\d,]+) tokens, .*", table.before)
    if match is None:
        raise FormatError(f"report: expected a line with the sentence before a table of {table.title!r}")
    layers: dict[str, list[dict[str, Any]]] = {}
    static: list[str] = []
    layer = ""
    for name, cosine, occurrence in table.rows[1:]:
        layer = name or layer
        if layer == "static vectors":
            static = occurrence.partition(": ")[2].split(", ")
        else:
            layers.setdefault(layer, []).append({"occurrence": _bracketed(occurrence), "cosine": float(cosine)})
    return {"sentence": _bracketed(match[1]), "tokens": match[2], "layers": layers, "static": static}


def _bracketed(sentence: str) -> str:
    """`in the **play** .` to `in the [play] .`: the page has no bold text in pictures."""
    return re.sub(r"\*\*(.*?)\*\*", r"[\1]", sentence)


def _measured(table: ReportTable) -> str:
    """Name of the measure in our column of Table 5 or 6."""
    ours = table.rows[0][2].removeprefix("ours, ")
    column = re.fullmatch(r"column (\S+)", ours)
    if column is None:
        return ours
    data = re.search(r"--train \S*?([^\s/]+)/[^\s/]+(?:\s|$)", table.command)
    folder = data[1] if data else ""
    return TAGS.get((folder, column[1]), f"tags of column {column[1]}" + (f", {folder}" if folder else ""))


def _layer_weights(report: str) -> list[dict[str, Any]]:
    """Figure 2: the learned weights of the layers, which the alternative text of the picture lists."""
    found: list[dict[str, Any]] = []
    for title in re.findall(r"^## (Figure 2.*)$", report, flags=re.MULTILINE):
        for text in _alt_texts(report, title):
            for task, place, numbers in re.findall(r"(\w+) (input|output)((?: [\d.]+)+)", text):
                found.append({"task": task, "place": place, "weights": [float(number) for number in numbers.split()]})
    return found


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


def _tables(report: str) -> list[ReportTable]:
    """All tables, each with the title of its section, the line before it and the command after it."""
    found: list[ReportTable] = []
    title = before = ""
    inside = fenced = False
    for line in report.splitlines():
        if line.startswith("## "):
            title = line[3:].strip()
        if line.startswith("```"):
            fenced = not fenced
        elif fenced and found and found[-1].title == title and not found[-1].command:
            found[-1].command = line
        if not line.startswith("|"):
            inside = False
            before = line.strip() or before
            continue
        cells = [cell.strip().replace("\\", "") for cell in line.strip().strip("|").split("|")]
        if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            continue
        if not inside:
            found.append(ReportTable(title, before))
        inside = True
        found[-1].rows.append(cells)
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
