"""Sample efficiency: training data and epochs that ELMo saves (Peters et al. 2018, Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from elmokit.analysis.shared.plots import curves
from elmokit.analysis.studies.study import EpochScore, Outcome, Variant, gain, scores_of
from elmokit.tasks.runs.run_comparison import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIED = ("elmo", "train_fraction", "seed")  # settings fixed by the study
SIDES = {"baseline": "no ELMo", "elmo": "ELMo"}


def variants(fractions: Sequence[float]) -> list[Variant]:
    """Variants without and with ELMo, for every fraction of the training data."""
    return [
        Variant(_name(side, fraction), {"elmo": side == "elmo", "train_fraction": fraction})
        for fraction in fractions
        for side in SIDES
    ]


def _name(side: str, fraction: float) -> str:
    return f"{side}-{fraction:.12g}"


def numbers(fractions: Sequence[float], outcomes: Mapping[str, list[Outcome]]) -> dict[str, Any]:
    """Scores at every fraction, and the epoch at which ELMo reaches the best score of the baseline."""
    points = []
    for fraction in fractions:
        baseline, elmo = (outcomes[_name(side, fraction)] for side in SIDES)
        points.append(
            {
                "fraction": fraction,
                "examples": baseline[0].record["examples"]["train"],
                **{side: _side(runs) for side, runs in zip(SIDES, (baseline, elmo), strict=True)},
                "gain": gain(elmo, baseline),
                "reached": [_reached(ours, theirs) for ours, theirs in zip(elmo, baseline, strict=True)],
            }
        )
    examples = outcomes[_name("baseline", fractions[0])][0].record["examples"]
    return {"examples": {part: examples[part] for part in ("dev", "test")}, "points": points}


def _side(runs: Sequence[Outcome]) -> dict[str, Any]:
    return {**scores_of(runs), "best": [_when(run.best) for run in runs]}


def _reached(elmo: Outcome, baseline: Outcome) -> dict[str, Any] | None:
    """The first epoch at which ELMo reaches the best dev score of the baseline with the same seed."""
    found = elmo.first_to_reach(baseline.dev)
    return _when(found) if found else None


def _when(epoch: EpochScore) -> dict[str, int]:
    return {"epoch": epoch.epoch, "updates": epoch.updates}


COLUMNS = (
    "part",
    "examples",
    "no ELMo: dev",
    "test",
    "best epoch",
    "ELMo: dev",
    "test",
    "best epoch",
    "gain",
    "as good after epoch (updates)",
)


def rows(facts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Table with one row per fraction: mean and standard deviation over seeds, and epochs needed per seed."""
    found = []
    for point in facts["points"]:
        cells: list[str] = []
        for side in SIDES:
            epochs = ", ".join(str(best["epoch"]) for best in point[side]["best"])
            cells += [shown(point[side]["dev"]), shown(point[side]["test"]), epochs]
        reached = ", ".join(f"{one['epoch']} ({one['updates']:,})" if one else "never" for one in point["reached"])
        part = f"{100 * point['fraction']:g}%"
        found.append((part, f"{point['examples']:,}", *cells, f"{point['gain']:+.2f}", reached))
    return found


def curve(facts: Mapping[str, Any]) -> Figure:
    """Plot of the score against training data size, with and without ELMo: mean and standard deviation over seeds."""
    points = facts["points"]
    part = "test" if points[0]["baseline"]["test"] else "dev"
    lines = {
        label: [(point["examples"], point[side][part]) for point in points] for side, label in reversed(SIDES.items())
    }
    ticks = {point["examples"]: f"{100 * point['fraction']:g}%\n{point['examples']:,}" for point in points}
    return curves(
        lines,
        ticks,
        title=f"{facts['task']}: part of the training data",
        x_name="training examples",
        y_name=f"{part} {facts['metric']}",
    )
