"""Quality section of the report: our vectors beside those of other encoders, on clean and on misspelled text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elmokit.analysis.report.page import Block, PageImage, Section, Table
from elmokit.analysis.report.report_inputs import Inputs, Part
from elmokit.analysis.shared.plots import bubbles, curves, picture

_TASKS = {"pos": "POS, accuracy in %", "ner": "names, span F1"}


def quality(inputs: Inputs) -> list[Part]:
    """Results of benchmarks/quality.py: curves over misspelled words, size and speed, and the table."""
    parts = []
    for one in inputs.of("quality"):
        with one.reading() as results:
            encoders = results.numbers["encoders"]
            blocks: list[Block] = [
                "All encoders are frozen, and get the same data and the same linear classifiers, trained on clean "
                "text. In misspelled text, letters of words with four or more letters are swapped, deleted or inserted "
                "at random.",
                *(block for task in _TASKS for block in _curve(task, encoders)),
                *_sizes(encoders),
                _table(results.numbers["table"]),
                one.source(),
            ]
        parts.append(Part(Section("Beside other encoders, on clean and misspelled text", tuple(blocks))))
    return parts


def _curve(task: str, encoders: Mapping[str, Any]) -> list[Block]:
    """Score against the share of misspelled words."""
    lines = {
        name: [(share, [score]) for share, score in figures[task]["curve"]]
        for name, figures in encoders.items()
        if "curve" in figures.get(task, {})
    }
    if not lines:
        return []
    shares = next(iter(lines.values()))
    figure = curves(
        lines,
        {share: f"{share:.0%}" for share, _ in shares},
        title=f"Misspelled words: {_TASKS[task]}",
        x_name="share of misspelled words",
        y_name=_TASKS[task],
        logarithmic=False,
    )
    ends = "; ".join(f"{name} {points[0][1][0]:.1f} to {points[-1][1][0]:.1f}" for name, points in lines.items())
    says = f"{_TASKS[task]}, from clean text to {shares[-1][0]:.0%} misspelled words: {ends}"
    return [PageImage(f"misspelled-{task}", picture(figure, ".svg"), says)]


def _sizes(encoders: Mapping[str, Any]) -> list[Block]:
    """Speed, quality and size of all encoders that have the three."""
    points = {
        name: (figures["tokens_per_cpu_second"], figures["ner"]["misspelled"], figures["megabytes"])
        for name, figures in encoders.items()
        if "tokens_per_cpu_second" in figures and "ner" in figures
    }
    if len(points) < 2:
        return []
    figure = bubbles(
        points,
        title="Speed, quality and size",
        x_name="tokens per second of one CPU core",
        y_name="names in misspelled text, span F1",
        size_name="MB",
    )
    says = "; ".join(
        f"{name}: {x:,.0f} tokens per second, F1 {y:.1f}, {mb:.0f} MB" for name, (x, y, mb) in points.items()
    )
    return [PageImage("sizes", picture(figure, ".svg"), says)]


def _table(lines: list[str]) -> Table:
    """The Markdown table of the results file."""
    heading, _, *rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return Table(heading, tuple(rows))
