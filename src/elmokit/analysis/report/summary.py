"""First section of the report: what ELMo gains on the tasks, as a chart and three sentences."""

from __future__ import annotations

from statistics import fmean

from elmokit.analysis.report import paper
from elmokit.analysis.report.page import Block, PageImage, Section
from elmokit.analysis.report.report_inputs import Inputs
from elmokit.analysis.shared.plots import bars, picture
from elmokit.weights.model import Model


def summary(inputs: Inputs, model: Model | None) -> Section:
    """Gains of all tasks that were measured with and without ELMo, beside the paper's."""
    gains = measured_gains(inputs)
    size = f" with {model.parameter_count / 1e6:.1f} million parameters" if model is not None else ""
    ours = f"Our model{size} stands beside the paper's with {paper.MODEL['parameters']} ({paper.PAPER})."
    caution = "Models, networks and data differ: compare the trends, not the last digit."
    if not gains:
        return Section("In short", (f"{ours} No task was measured both with and without ELMo. {caution}",))
    best = max(gains, key=lambda task: gains[task])
    better = sum(gain > 0 for gain in gains.values())
    tasks = f"{better} of {len(gains)} task{'s' * (len(gains) != 1)}"
    blocks: list[Block] = [
        f"ELMo improves {tasks}, by {fmean(gains.values()):.1f} points on average, and most "
        f"{paper.TABLE_1[best].name} ({gains[best]:+.1f}). {ours} {caution}",
        gains_chart(gains),
    ]
    return Section("In short", tuple(blocks))


def measured_gains(inputs: Inputs) -> dict[str, float]:
    """Gain of ELMo by task, in points and in the paper's order; of several variants, that with the best dev score."""
    gains = {}
    for task in paper.TABLE_1:
        comparison = inputs.tasks.get(task)
        if comparison is not None and not comparison.baseline.uses_elmo and comparison.with_elmo:
            gains[task] = comparison.gain(comparison.with_elmo[0])
    return gains


def gains_chart(gains: dict[str, float]) -> PageImage:
    """Bars of our gains and the paper's. gains: in points, by task."""
    names = [paper.TABLE_1[task].name for task in gains]
    theirs = [float(paper.TABLE_1[task].gain.split(" / ")[0]) for task in gains]
    figure = bars(
        {"ours": list(gains.values()), "paper": theirs},
        names,
        title="What ELMo gains on each task",
        value_name="points of the task's metric",
    )
    says = "Gain of ELMo in points: " + ", ".join(
        f"{name} {gain:+.1f} (paper {other:+.1f})"
        for name, gain, other in zip(names, gains.values(), theirs, strict=True)
    )
    return PageImage("gains", picture(figure, ".svg"), says)
