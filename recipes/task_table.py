"""The table of the six tasks on README and docs/tasks.md, from the records of runs: docs/results/tasks.json.

    python recipes/task_table.py docs/results/runs      (make report)

Of several variants with or without ELMo, the one with the best dev score counts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean
from typing import Any

from elmokit.analysis.report import paper
from elmokit.analysis.report.report_inputs import gather
from elmokit.analysis.shared.results import Results, command_line, write_results
from elmokit.analysis.studies.study import run_model
from elmokit.tasks.runs.run_comparison import Group, RunComparison, shown, spread
from elmokit.tasks.runs.run_folder import read_record

OUTPUT = Path(__file__).parents[1] / "docs" / "results" / "tasks.json"
COLUMNS = ("task, metric", "without ELMo", "with ELMo", "gain", "of the errors", "paper: gain / of the errors", "seeds")


def figures(comparison: RunComparison) -> dict[str, Any]:
    """Scores without ELMo and with it, and the gain."""
    baseline, elmo = comparison.baseline, comparison.with_elmo[0]

    def side(group: Group) -> dict[str, Any]:
        return {
            "scores": list(group.scores),
            "mean": fmean(group.scores),
            "deviation": spread(group.scores),
            "dev": list(group.dev),
            "shown": shown(group.scores),
            "runs": [folder.name for folder in group.folders],
        }

    return {
        "part": "test" if elmo.test else "dev",
        "baseline": side(baseline),
        "elmo": side(elmo),
        "gain": comparison.gain(elmo),
        "error_reduction": comparison.error_reduction(elmo),
    }


def table(tasks: dict[str, Any]) -> list[str]:
    """Markdown lines, in the paper's order."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for task, facts in tasks.items():
        theirs = paper.TABLE_1[task]
        cells = [
            f"{theirs.name}, {theirs.metric}",
            facts["baseline"]["shown"],
            facts["elmo"]["shown"],
            f"{facts['gain']:+.2f}",
            f"{facts['error_reduction']:.1f}%",
            theirs.gain,
            f"{len(facts['baseline']['scores'])}, {len(facts['elmo']['scores'])}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Compare the runs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder with the records of runs (recipes/keep_results.py)")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT, metavar="JSON")
    arguments = parser.parse_args()
    compared = gather([arguments.runs]).tasks  # of one model
    complete = {task: one for task, one in compared.items() if not one.baseline.uses_elmo and one.with_elmo}
    tasks = {task: figures(complete[task]) for task in paper.TABLE_1 if task in complete}
    if not tasks:
        raise SystemExit(f"{arguments.runs}: expected runs of a task with and without ELMo, found none")
    records = [read_record(run) for task in tasks for group in complete[task].groups for run in group.folders]
    model = next((run_model(record) for record in records if record["model"]), None)
    machines = sorted({record["machine"] for record in records if "machine" in record})
    results = Results(
        "tasks",
        command_line("python recipes/task_table.py"),
        model,
        (),
        {"tasks": tasks, "table": table(tasks)},
        machine="; ".join(machines) or None,  # of the runs
        seeds=tuple(sorted({record["settings"]["seed"] for record in records})),
    )
    write_results(arguments.output, results, overwrite=True)


if __name__ == "__main__":
    main()
