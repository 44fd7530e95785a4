"""Comparison of runs: gain of ELMo over a baseline, with mean and standard deviation over seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from elmokit.errors import FormatError, InputError
from elmokit.tasks.runs import run_folder as files
from elmokit.tasks.shared.task_base import log


@dataclass(frozen=True)
class Group:
    """Runs that differ only in the seed and the machine."""

    task: str
    metric: str
    folders: tuple[Path, ...]
    record: Mapping[str, Any]  # settings record of the first run
    dev: tuple[float, ...]  # metric per run, in percent
    test: tuple[float, ...]  # empty if a run lacks test data
    epochs: tuple[int, ...]  # until the best
    seconds: tuple[float, ...]  # until the best
    mixes: Mapping[str, tuple[tuple[float, ...], float]]  # by place: mean layer weights and mean gamma

    @property
    def settings(self) -> Mapping[str, Any]:
        """Their hyper-parameters."""
        settings: Mapping[str, Any] = self.record["settings"]
        return settings

    @property
    def uses_elmo(self) -> bool:
        """Whether the runs use ELMo."""
        return bool(self.settings["elmo"])

    @property
    def scores(self) -> tuple[float, ...]:
        """Scores on the test data if present, otherwise on the dev data."""
        return self.test or self.dev

    @property
    def scored_on(self) -> tuple[object, ...]:
        """Identity of the evaluation data: test file, dev file, or held-out part."""
        data = self.record["data"]
        if given := data["test"] if self.test else data["dev"]:
            return (given["sha256"],)
        return (*(item["sha256"] for item in data["train"]), self.settings.get("hold_out"))


@dataclass(frozen=True)
class RunComparison:
    """Groups of runs of one task, compared with a baseline group."""

    groups: tuple[Group, ...]

    @property
    def baseline(self) -> Group:
        """The group without ELMo that has the best dev score; if all use ELMo, the first group.

        Runs that learned nothing are not used.
        """
        sound = [group for group in self.groups if any(group.scores)] or self.groups
        without = [group for group in sound if not group.uses_elmo]
        return max(without, key=lambda group: fmean(group.dev), default=sound[0])

    @property
    def with_elmo(self) -> list[Group]:
        """The groups with ELMo, the best dev score first."""
        return sorted((g for g in self.groups if g.uses_elmo), key=lambda group: fmean(group.dev), reverse=True)

    def gain(self, group: Group) -> float:
        """Absolute gain of the mean over the baseline, in points."""
        return fmean(group.scores) - fmean(self.baseline.scores)

    def error_reduction(self, group: Group) -> float | None:
        """Relative error reduction over the baseline in percent; None if the baseline makes no errors."""
        errors = 100 - fmean(self.baseline.scores)
        return 100 * self.gain(group) / errors if errors > 0 else None


def compare(folders: Sequence[Path]) -> RunComparison:
    """Compare complete runs of one task."""
    found = RunComparison(tuple(map(_without_broken, _comparable(folders))))
    tasks = sorted({group.task for group in found.groups})
    if len(tasks) > 1:
        raise InputError(f"compare: expected runs of one task, found {' and '.join(tasks)}")
    for group in found.groups:
        if not any(group.scores):
            log.warning("%s: scores 0, has learned nothing, and is not used as the baseline", group.folders[0])
        if group.scored_on != found.baseline.scored_on:
            raise InputError(
                f"{group.folders[0]}: expected scores on the same data as those of {found.baseline.folders[0]}, found "
                "others; compare runs with one test set at a time"
            )
    return found


def _comparable(folders: Sequence[Path]) -> tuple[Group, ...]:
    """Groups of runs with scores on the same data.

    If only some runs have test scores, the others are left out, provided that two or more groups remain; otherwise all
    are compared on dev data.
    """
    groups = read_groups(folders)
    runs = [run for group in groups for run in group.folders]
    untested = [run for run in runs if not files.read_json(run / files.RESULTS)["test"]]
    if len(untested) in (0, len(runs)):
        return groups
    tested = read_groups([run for run in runs if run not in untested])
    left = "and is left out" if len(tested) > 1 else "so that dev scores are compared"
    for run in untested:
        log.warning("%s: has no test scores, %s; train it with test data", run, left)
    return tested if len(tested) > 1 else tuple(replace(group, test=()) for group in groups)


def _without_broken(group: Group) -> Group:
    """The group without its runs that score 0, unless all do: a mean over both kinds would be meaningless."""
    broken = [run for run, score in zip(group.folders, group.scores, strict=True) if not score]
    if len(broken) in (0, len(group.folders)):
        return group
    for run in broken:
        log.warning("%s: scores 0, has learned nothing, and is left out", run)
    (sound,) = read_groups([run for run in group.folders if run not in broken])
    return sound if group.test else replace(sound, test=())


def read_groups(folders: Sequence[Path]) -> tuple[Group, ...]:
    """Read complete runs of any task and group those that differ only in the seed.

    A folder that is not a run stands for the runs in it.
    """
    runs = [run for folder in folders for run in runs_in(folder)]
    if not runs:
        raise InputError("compare: expected folders of runs, found none")
    groups: dict[str, list[tuple[Path, dict[str, Any], dict[str, Any]]]] = {}
    try:
        for folder in runs:
            record, results = files.read_record(folder), files.read_results(folder)
            groups.setdefault(_identity(record), []).append((folder, record, results))
        return tuple(_group(members) for members in groups.values())
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{folder}: expected the record and the results of a run, found others ({error!r})") from None


def shown(scores: Sequence[float]) -> str:
    """Mean and standard deviation as "81.00 ± 1.41"; an empty string without scores."""
    if not scores:
        return ""
    deviation = spread(scores)
    return f"{fmean(scores):.2f}" + (f" ± {deviation:.2f}" if deviation is not None else "")


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation over runs; None for a single run."""
    return stdev(values) if len(values) > 1 else None


def runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is a run, otherwise the complete runs in it; incomplete ones are logged."""
    if (folder / files.SETTINGS).is_file():
        return [folder]
    inside = sorted(path.parent for path in folder.glob(f"*/{files.SETTINGS}")) if folder.is_dir() else []
    if not inside:
        files.read_record(folder)  # raises with the reason
    complete = [run for run in inside if (run / files.RESULTS).is_file()]
    for run in inside if complete else ():
        if run not in complete:
            log.warning("%s: skipped, because the run is not complete", run)
    return complete or inside  # without any, reading the folder itself raises the error


def _identity(record: Mapping[str, Any]) -> str:
    """Grouping key: equal for runs that differ only in the seed and in file paths."""
    settings = {k: v for k, v in record["settings"].items() if k not in ("seed", "model", "vectors")}
    data = record["data"]
    hashes = [item and item["sha256"] for item in (*data["train"], data["dev"], data["test"], record["vectors"])]
    model = record["model"] and [record["model"]["fingerprint"], record["model"]["state"]]
    return json.dumps([record["task"], settings, hashes, model], sort_keys=True)


def _group(members: Sequence[tuple[Path, dict[str, Any], dict[str, Any]]]) -> Group:
    folders, records, results = zip(*members, strict=True)
    metric = results[0]["metric"]
    tests = [result["test"][metric] for result in results if result["test"]]
    mixes = {}
    for place in results[0]["mix"]:
        weights = zip(*(result["mix"][place]["weights"] for result in results), strict=True)
        gamma = fmean(result["mix"][place]["gamma"] for result in results)
        mixes[place] = (tuple(fmean(layer) for layer in weights), gamma)
    return Group(
        records[0]["task"],
        metric,
        folders,
        records[0],
        dev=tuple(result["dev"][metric] for result in results),
        test=tuple(tests) if len(tests) == len(results) else (),
        epochs=tuple(result["best_epoch"] for result in results),
        seconds=tuple(result["seconds_to_best"] for result in results),
        mixes=mixes,
    )
