"""Sample efficiency: training data and epochs that ELMo saves (Peters et al. 2018, Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any

from elmokit.analysis.shared.plots import curves
from elmokit.analysis.studies.study import EpochScore, Outcome, Variant, gain, scores_of
from elmokit.tasks.runs.run_comparison import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIED = ("elmo", "train_fraction", "seed")  # settings fixed by the study
SIDES = {"baseline": "no ELMo", "elmo": "ELMo"}
Choices = Mapping[str, Sequence[Any]]  # values to choose from, by setting


def variants(fractions: Sequence[float], choices: Choices | None = None, up_to: float = 1.0) -> list[Variant]:
    """Variants without and with ELMo, for every fraction of the training data and every combination of `choices`.

    up_to: the largest fraction with choices; larger ones have the settings as they are.
    """
    return [
        Variant(
            _name(side, fraction, chosen),
            {"elmo": side == "elmo", "train_fraction": fraction, **chosen},
            adapts=fraction < 1,
        )
        for fraction in fractions
        for side in SIDES
        for chosen in _combinations(choices if fraction <= up_to else None)
    ]


def _combinations(choices: Choices | None) -> list[dict[str, Any]]:
    """All combinations of the values of the settings; a single one, without settings, if there are no choices."""
    choices = choices or {}
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def _name(side: str, fraction: float, chosen: Mapping[str, Any]) -> str:
    return "-".join((side, f"{fraction:.12g}", *(f"{name}={value}" for name, value in chosen.items())))


def numbers(
    fractions: Sequence[float],
    outcomes: Mapping[str, list[Outcome]],
    choices: Choices | None = None,
    up_to: float = 1.0,
) -> dict[str, Any]:
    """Scores at every fraction, and the epoch at which ELMo reaches the best score of the baseline.

    Of several combinations, each side has the one with the best mean dev score at the fraction; `tried` has all.
    """
    points = []
    examples = next(iter(outcomes.values()))[0].record["examples"]
    for fraction in fractions:
        chosen_from = choices if fraction <= up_to else None
        best = {
            side: max(_combinations(chosen_from), key=lambda one: _mean_dev(outcomes[_name(side, fraction, one)]))
            for side in SIDES
        }
        baseline, elmo = (outcomes[_name(side, fraction, best[side])] for side in SIDES)
        points.append(
            {
                "fraction": fraction,
                "examples": baseline[0].record["examples"]["train"],
                **{side: _side(runs) for side, runs in zip(SIDES, (baseline, elmo), strict=True)},
                **({"chosen": best, "tried": _tried(fraction, outcomes, chosen_from)} if chosen_from else {}),
                "gain": gain(elmo, baseline),
                "reached": [_reached(ours, theirs) for ours, theirs in zip(elmo, baseline, strict=True)],
            }
        )
    return {"examples": {part: examples[part] for part in ("dev", "test")}, "points": points}


def _tried(fraction: float, outcomes: Mapping[str, list[Outcome]], choices: Choices) -> dict[str, list[dict[str, Any]]]:
    """Dev scores of all combinations, without and with ELMo."""
    return {
        side: [
            {"settings": one, "dev": [run.dev for run in outcomes[_name(side, fraction, one)]]}
            for one in _combinations(choices)
        ]
        for side in SIDES
    }


def _mean_dev(runs: Sequence[Outcome]) -> float:
    return fmean(run.dev for run in runs)


def _side(runs: Sequence[Outcome]) -> dict[str, Any]:
    return {**scores_of(runs), "best": [_when(run.best) for run in runs]}


def _reached(elmo: Outcome, baseline: Outcome) -> dict[str, Any] | None:
    """The first epoch at which ELMo reaches the best dev score of the baseline with the same seed."""
    found = elmo.first_to_reach(baseline.dev)
    return _when(found) if found else None


def _when(epoch: EpochScore) -> dict[str, int]:
    return {"epoch": epoch.epoch, "updates": epoch.updates}


_COLUMNS = (
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


def columns(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the columns of `rows`."""
    has_choices = any("chosen" in point for point in facts["points"])
    return (*_COLUMNS, "chosen without ELMo", "chosen with ELMo") if has_choices else _COLUMNS


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
        chosen = [", ".join(f"{k} {v}" for k, v in side.items()) for side in point.get("chosen", {}).values()]
        chosen = chosen or [""] * (len(columns(facts)) - len(_COLUMNS))
        found.append((part, f"{point['examples']:,}", *cells, f"{point['gain']:+.2f}", reached, *chosen))
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
