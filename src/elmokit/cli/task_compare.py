"""`elmo task compare`: runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from elmokit.tasks.compare import Comparison, Group


def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders of complete runs.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare runs of one task, for example: elmo task compare runs/ner-baseline runs/ner

    Runs that differ in the seed alone are one line: mean and standard deviation. The baseline is the first without
    ELMo; gains are those of the test scores, or of the dev scores where there is no test data.
    """
    from rich.console import Console
    from rich.table import Table

    from elmokit.cli.task_options import warnings
    from elmokit.tasks.compare import compare as read

    with warnings():
        comparison = read(folders)
    if as_json:
        typer.echo(json.dumps(_as_json(comparison), indent=2))
        return
    metric = comparison.baseline.metric
    columns = [
        "runs",
        f"dev {metric}",
        f"test {metric}",
        "gain",
        "error reduction",
        "epochs",
        "seconds",
        "layer weights",
    ]
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for group in comparison.groups:
        table.add_row(*_row(comparison, group))
    # in a pipe the table is as wide as it needs to be
    console = Console(width=None if Console().is_terminal else 200)
    console.print(table)


def _row(comparison: Comparison, group: Group) -> list[str]:
    from statistics import fmean

    from elmokit.tasks.compare import shown

    is_baseline = group is comparison.baseline
    reduction = comparison.error_reduction(group)
    name = str(group.folders[0]) + (f" and {len(group.folders) - 1} more" if len(group.folders) > 1 else "")
    return [
        f"{name} ({'+ELMo' if group.uses_elmo else 'no ELMo'})",
        shown(group.dev),
        shown(group.test),
        "" if is_baseline else f"{comparison.gain(group):+.2f}",
        "" if is_baseline or reduction is None else f"{reduction:.1f}%",
        f"{fmean(group.epochs):.0f}",
        f"{fmean(group.seconds):.0f}",
        "; ".join(
            f"{place} {' '.join(f'{weight:.2f}' for weight in weights)} (gamma {gamma:.2f})"
            for place, (weights, gamma) in group.mixes.items()
        ),
    ]


def _as_json(comparison: Comparison) -> dict[str, Any]:
    groups = [
        {
            "runs": [str(folder) for folder in group.folders], "elmo": group.uses_elmo, "dev": group.dev,
            "test": group.test, "gain": comparison.gain(group), "error_reduction": comparison.error_reduction(group),
            "best_epochs": group.epochs, "seconds": group.seconds,
            "mix": {place: {"weights": weights, "gamma": gamma} for place, (weights, gamma) in group.mixes.items()},
        }
        for group in comparison.groups
    ]  # fmt: skip
    return {
        "task": comparison.baseline.task, "metric": comparison.baseline.metric,
        "baseline": comparison.groups.index(comparison.baseline), "groups": groups,
    }  # fmt: skip
