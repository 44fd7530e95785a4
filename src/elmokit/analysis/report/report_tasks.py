"""Task sections of the report: Tables 1 to 3, Figures 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmokit.analysis.report import paper
from elmokit.analysis.report.page import Block, Listing, PageImage, Points, Section, Table
from elmokit.analysis.report.report_inputs import NOT_MEASURED, Inputs, Part, ResultsFile
from elmokit.analysis.shared.plots import picture
from elmokit.analysis.studies.layer_weights import weights_map, weights_of
from elmokit.analysis.studies.sample_efficiency import columns, curve, rows
from elmokit.analysis.studies.study import run_model
from elmokit.tasks.runs.run_comparison import Group, RunComparison, shown


def task_name(task: str) -> str:
    """Task name as in the paper."""
    return paper.TABLE_1[task].name if task in paper.TABLE_1 else task


def table_1(inputs: Inputs) -> Part:
    """Table 1: six tasks, with and without ELMo."""
    columns = (
        "",
        "metric",
        "paper: previous SOTA",
        "no ELMo",
        "ELMo",
        "gain / of errors",
        "ours: no ELMo",
        "ELMo",
        "gain / of errors",
    )
    lines: list[tuple[str, ...]] = []
    about: list[str] = []
    groups: list[Group] = []
    for task, theirs in paper.TABLE_1.items():
        known = (theirs.name, theirs.metric, theirs.previous, theirs.baseline, theirs.elmo, theirs.gain)
        comparison = inputs.tasks.get(task)
        ours = _lines(comparison) if comparison else [(NOT_MEASURED, NOT_MEASURED, "")]
        lines += [(*(known if not k else ("",) * len(known)), *line) for k, line in enumerate(ours)]
        if comparison is not None:
            about += [f"{theirs.name}: {_about(group)}" for group in comparison.groups]
            groups += comparison.groups
    blocks: list[Block] = [
        "Scores on the test data, in percent; where a run had none, on the dev data. Of several seeds: mean and "
        "standard deviation. Gain: of the means, and as a share of the errors without ELMo.",
        Table(columns, tuple(lines)),
    ]
    if about:
        blocks += [
            "Differences: the biLM (see The models), the network sizes (as in the commands below, otherwise the "
            f"defaults of elmokit), and the data. The paper's: {paper.TABLE_1_DATA}. Ours:",
            Points(tuple(about)),
            _made(groups),
        ]
    missing = [task_name(task) for task in paper.TABLE_1 if task not in inputs.tasks]
    return _part("Table 1: six tasks", blocks, missing)


def _lines(comparison: RunComparison) -> list[tuple[str, str, str]]:
    """Our rows of Table 1: one per group with ELMo, the best on the dev data first."""
    baseline = None if comparison.baseline.uses_elmo else comparison.baseline
    first = shown(baseline.scores) if baseline else NOT_MEASURED
    found = []
    for group in comparison.with_elmo:
        reduction = comparison.error_reduction(group)
        share = f" / {reduction:.1f}%" if reduction is not None else ""
        found.append((first, shown(group.scores), f"{comparison.gain(group):+.2f}{share}" if baseline else ""))
    return found or [(first, NOT_MEASURED, "")]


def _about(group: Group) -> str:
    """Training and test data of a group of runs."""
    counts, data = group.record["examples"], group.record["data"]
    names = ", ".join(Path(file["path"]).name for file in data["train"])
    part = group.settings.get("train_fraction", 1.0)
    some = f" ({100 * part:g}% of it)" if part < 1 else ""
    tested = group.test and data.get("test")
    scored = f"tested on {counts['test']:,} of {Path(data['test']['path']).name}" if tested else "no test data"
    elmo = f"ELMo at {group.settings.get('elmo_at', 'input')}" if group.uses_elmo else "no ELMo"
    return f"{elmo}, {_seeds(len(group.folders))}, {counts['train']:,} training examples of {names}{some}, {scored}"


def _made(groups: Sequence[Group]) -> Listing:
    """Distinct commands of the runs, with their folders."""
    folders: dict[str, list[str]] = {}
    for group in groups:
        folders.setdefault(group.record["command"], []).extend(folder.name for folder in group.folders)
    return Listing("\n".join(f"{command}\n# {', '.join(names)}" for command, names in folders.items()), "Commands")


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds"


def tables_2_and_3(inputs: Inputs) -> list[Part]:
    """Tables 2 and 3: which layers, and where."""
    found = inputs.of("ablate")
    return [
        _ablation("Table 2: which layers", "layers", paper.TABLE_2, found),
        _ablation("Table 3: where ELMo goes in", "places", paper.TABLE_3, found),
    ]


def _ablation(title: str, table: str, theirs: Mapping[str, Mapping[str, float]], found: Sequence[ResultsFile]) -> Part:
    labels = list(next(iter(theirs.values())))
    measured: dict[str, list[tuple[str, ...]]] = {}
    about = []
    for one in found:
        with one.reading() as results:
            facts = results.numbers
            by_row = {row["row"]: row for row in facts["tables"][table]}
            for part in ("dev", "test"):
                scores = tuple(shown(by_row[label][part]) for label in labels)
                if any(scores):
                    measured.setdefault(facts["task"], []).append(("", f"ours, {part}", *scores))
            about.append(_study_data(facts))
    lines: list[tuple[str, ...]] = []
    for task in (*theirs, *(task for task in measured if task not in theirs)):
        known = tuple(f"{theirs[task][label]:.1f}" for label in labels) if task in theirs else ("",) * len(labels)
        lines.append((task_name(task), "paper, dev" if task in theirs else "not in the paper", *known))
        lines += measured.get(task, [("", "ours", *[NOT_MEASURED] * len(labels))])
    blocks: list[Block] = [Table(("", "", *labels), tuple(lines))]
    if about:
        blocks += [Points(tuple(about)), *(one.source() for one in found)]
    return _part(title, blocks, [task_name(task) for task in theirs if task not in measured])


def _study_data(facts: Mapping[str, Any]) -> str:
    counts = facts["examples"]
    part = facts["train_fraction"]
    some = f", {100 * part:g}% of the training data" if part < 1 else ""
    return (
        f"{task_name(facts['task'])}: {facts['metric']}, {_seeds(len(facts['seeds']))}; {counts['train']:,} training "
        f"examples{some}, {counts['dev']:,} for dev, {counts['test']:,} for test; layers compared at: {facts['place']}"
    )


def figure_1(inputs: Inputs) -> Part:
    """Figure 1: sample efficiency."""
    blocks: list[Block] = [f"The paper: {paper.FIGURE_1}"]
    measured = set()
    for k, one in enumerate(inputs.of("sample-efficiency"), start=1):
        with one.reading() as results:
            facts = results.numbers
            name = task_name(facts["task"])
            measured.add(facts["task"])
            says = f"{name}: {facts['metric']} with and without ELMo against the number of training examples"
            svg = picture(curve(facts), ".svg")
            blocks += [PageImage(f"figure-1-{k}", svg, says), Table(columns(facts), tuple(rows(facts)))]
            counts, seeds = facts["examples"], _seeds(len(facts["seeds"]))
            blocks.append(
                f"Ours for {name}: {facts['metric']}, {seeds}; {counts['dev']:,} examples for dev, {counts['test']:,} "
                "for test. As good: the first epoch of ELMo whose dev score is at least that of the baseline at its "
                "best, with the same seed and data."
            )
            blocks.append(one.source())
    missing = [task_name(task) for task in paper.FIGURE_1_TASKS if task not in measured]
    return _part("Figure 1: less training data", blocks, missing)


def figure_2(inputs: Inputs) -> Part:
    """Figure 2: learned layer weights, from results of `elmo task weights`, or else from the runs."""
    found = inputs.of("weights")
    drawn: list[Block] = []
    for k, one in enumerate(found, start=1):
        with one.reading() as results:
            drawn += [_weights(f"figure-2-{k}", results.numbers), one.source()]
    by_model: dict[str, list[Group]] = {}
    for group in (group for comparison in inputs.tasks.values() for group in comparison.groups if not found):
        if group.mixes and group.settings["mix"] == "all":
            by_model.setdefault(run_model(group.record).fingerprint, []).append(group)
    for k, groups in enumerate(by_model.values(), start=1):
        facts, model = weights_of(groups)
        drawn += [
            _weights(f"figure-2-{k}", facts),
            f"Layers of {model.name} ({model.fingerprint[:12]}).",
            _made(groups),
        ]
    blocks = [f"The paper: {paper.FIGURE_2}", *drawn]
    return _part("Figure 2: the weights that tasks learn", blocks, [] if drawn else ["all tasks"])


def _weights(name: str, facts: Mapping[str, Any]) -> PageImage:
    rows = [f"{row['name']} {' '.join(f'{weight:.2f}' for weight in row['weights'])}" for row in facts["rows"]]
    return PageImage(name, picture(weights_map(facts), ".svg"), f"weights of the layers: {'; '.join(rows)}")


def _part(title: str, blocks: Sequence[Block], missing: Sequence[str]) -> Part:
    """A part that states which results are missing."""
    gaps = tuple(f"{title}: {', '.join(missing)}" for _ in missing[:1])
    said: list[Block] = [f"Not measured: {', '.join(missing)}."] if missing else []
    return Part(Section(title, (*blocks, *said)), gaps)
