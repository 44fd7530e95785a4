"""`elmo task compare`: runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmokit.cli.options import AsJson, Overwrite
from elmokit.cli.output import print_table

if TYPE_CHECKING:
    from elmokit.analysis.shared.results import Results
    from elmokit.tasks.runs.run_comparison import Group, RunComparison


def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders that contain complete runs.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="JSON", help="Also write the results to this file.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs of one task, for example: elmo task compare runs/ner-baseline runs/ner

    Runs that differ only in the seed are one line: mean and standard deviation. The baseline is the line without ELMo
    that has the best dev score; gains are those of the test scores, or of the dev scores where there is no test data.
    """
    from rich.table import Table

    from elmokit.analysis.shared.results import check_target, write_results
    from elmokit.cli.task_options import warnings
    from elmokit.tasks.runs.run_comparison import compare as read

    if output is not None:
        check_target(output, overwrite=overwrite)
    with warnings():
        comparison = read(folders)
    if output is not None:
        write_results(output, _results(comparison), overwrite=overwrite)
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
    print_table(table)


def _row(comparison: RunComparison, group: Group) -> list[str]:
    from statistics import fmean

    from elmokit.tasks.runs.run_comparison import shown

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


def _results(comparison: RunComparison) -> Results:
    """The comparison with its provenance; the data of the runs were checked to be the same."""
    from elmokit.analysis.shared.results import Results, command_line
    from elmokit.analysis.studies.study import run_model
    from elmokit.tasks.runs.run_folder import read_record

    records = [read_record(folder) for group in comparison.groups for folder in group.folders]
    model = next((run_model(record) for record in records if record["model"]), None)
    seeds = tuple(sorted({record["settings"]["seed"] for record in records}))
    data = records[0]["data"]
    files = [file for file in (*data["train"], data["dev"], data["test"]) if file]
    digests = {Path(file["path"]).name: file["sha256"] for file in files}
    numbers = {**_as_json(comparison), "data": digests}
    return Results("task-compare", command_line(), model, (), numbers, seeds=seeds)


def _as_json(comparison: RunComparison) -> dict[str, Any]:
    groups = [
        {
            "runs": [str(folder) for folder in group.folders],
            "elmo": group.uses_elmo,
            "dev": group.dev,
            "test": group.test,
            "gain": comparison.gain(group),
            "error_reduction": comparison.error_reduction(group),
            "best_epochs": group.epochs,
            "seconds": group.seconds,
            "mix": {place: {"weights": weights, "gamma": gamma} for place, (weights, gamma) in group.mixes.items()},
        }
        for group in comparison.groups
    ]
    return {
        "task": comparison.baseline.task,
        "metric": comparison.baseline.metric,
        "baseline": comparison.groups.index(comparison.baseline),
        "groups": groups,
    }
