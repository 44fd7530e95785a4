"""Runs side by side: what ELMo gains over a baseline, with the mean and the spread over seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from elmokit.errors import FormatError, InputError
from elmokit.tasks import folder as files
from elmokit.tasks.task import log


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed and the machine."""

    task: str
    metric: str
    folders: tuple[Path, ...]
    record: Mapping[str, Any]  # all that made the first of them
    dev: tuple[float, ...]  # the metric of every run, in percent
    test: tuple[float, ...]  # empty if any run has no test data
    epochs: tuple[int, ...]  # until the best
    seconds: tuple[float, ...]  # until the best
    mixes: Mapping[str, tuple[tuple[float, ...], float]]  # by place: mean weights of the layers, and mean gamma

    @property
    def settings(self) -> Mapping[str, Any]:
        """Their hyper-parameters."""
        settings: Mapping[str, Any] = self.record["settings"]
        return settings

    @property
    def uses_elmo(self) -> bool:
        """Whether these are runs with ELMo."""
        return bool(self.settings["elmo"])

    @property
    def scores(self) -> tuple[float, ...]:
        """On the test data where there is any, else on the dev data."""
        return self.test or self.dev

    @property
    def scored_on(self) -> tuple[object, ...]:
        """Equal for groups whose scores are of the same data: test, dev, or else what was held out."""
        data = self.record["data"]
        if given := data["test"] if self.test else data["dev"]:
            return (given["sha256"],)
        return (*(item["sha256"] for item in data["train"]), self.settings.get("hold_out"))


@dataclass(frozen=True)
class Comparison:
    """Groups of runs of one task, the first of which is what the others are compared with."""

    groups: tuple[Group, ...]

    @property
    def baseline(self) -> Group:
        """The first group without ELMo; if all have it, the first group."""
        return next((group for group in self.groups if not group.uses_elmo), self.groups[0])

    def gain(self, group: Group) -> float:
        """Points above the baseline, of the means."""
        return fmean(group.scores) - fmean(self.baseline.scores)

    def error_reduction(self, group: Group) -> float | None:
        """The part of the baseline's errors that is gone, in percent; None where it makes none."""
        errors = 100 - fmean(self.baseline.scores)
        return 100 * self.gain(group) / errors if errors > 0 else None


def compare(folders: Sequence[Path]) -> Comparison:
    """Set complete runs of one task beside each other."""
    found = Comparison(read_groups(folders))
    tasks = sorted({group.task for group in found.groups})
    if len(tasks) > 1:
        raise InputError(f"compare: expected runs of one task, found {' and '.join(tasks)}")
    for group in found.groups:
        if bool(group.test) != bool(found.baseline.test):
            raise InputError(f"{group.folders[0]}: expected test scores in all runs or in none; train with --test")
        if group.scored_on != found.baseline.scored_on:
            raise InputError(
                f"{group.folders[0]}: expected scores on the same data as those of {found.baseline.folders[0]}, found "
                "others; compare runs with one test set at a time"
            )
    return found


def read_groups(folders: Sequence[Path]) -> tuple[Group, ...]:
    """Read complete runs, of any task, and put those that differ in the seed alone together.

    A folder that is no run itself stands for the runs in it.
    """
    runs = [run for folder in folders for run in runs_in(folder)]
    if not runs:
        raise InputError("compare: expected folders of runs, found none")
    groups: dict[str, list[tuple[Path, dict[str, Any], dict[str, Any]]]] = {}
    try:
        for folder in runs:
            record, results = files.read_record(folder), files.read_json(folder / files.RESULTS)
            groups.setdefault(_identity(record), []).append((folder, record, results))
        return tuple(_group(members) for members in groups.values())
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{folder}: expected the record and the results of a run, found others ({error!r})") from None


def shown(scores: Sequence[float]) -> str:
    """The mean of some scores and their spread, as "81.00 ± 1.41"; nothing of none."""
    if not scores:
        return ""
    deviation = spread(scores)
    return f"{fmean(scores):.2f}" + (f" ± {deviation:.2f}" if deviation is not None else "")


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation over runs; None of a single one."""
    return stdev(values) if len(values) > 1 else None


def runs_in(folder: Path) -> list[Path]:
    """A folder itself, if it is a run; else the complete runs in it. The others are logged."""
    if (folder / files.SETTINGS).is_file():
        return [folder]
    inside = sorted(path.parent for path in folder.glob(f"*/{files.SETTINGS}")) if folder.is_dir() else []
    if not inside:
        files.read_record(folder)  # says what is wrong
    complete = [run for run in inside if (run / files.RESULTS).is_file()]
    for run in inside if complete else ():
        if run not in complete:
            log.warning("%s: is not complete, and left out", run)
    return complete or inside  # of none, their reader says what is wrong


def _identity(record: Mapping[str, Any]) -> str:
    """Equal for runs that differ in the seed and in where things lie."""
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
        records[0]["task"], metric, folders, records[0],
        dev=tuple(result["dev"][metric] for result in results),
        test=tuple(tests) if len(tests) == len(results) else (),
        epochs=tuple(result["best_epoch"] for result in results),
        seconds=tuple(result["seconds_to_best"] for result in results), mixes=mixes,
    )  # fmt: skip
