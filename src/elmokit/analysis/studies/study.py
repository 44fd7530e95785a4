"""Study: runs of one task with different settings in one folder, planned in advance and resumable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from elmokit.analysis.shared.results import ModelFacts, Results, check_target, command_line, file_facts, read_results
from elmokit.errors import ConfigError, FormatError, InputError, OutputError
from elmokit.tasks.runs import run_folder as files
from elmokit.tasks.runs.small_data import ADAPTED, scaled
from elmokit.tasks.runs.task_run import Data, require_room
from elmokit.tasks.shared.task_base import Task
from elmokit.tasks.shared.task_settings import FitSettings
from elmokit.training.settings_fields import flag, settings_from_json

RESULTS = "results.json"  # results of the study, next to the run folders
PACKAGED = "the packaged model"


@dataclass(frozen=True)
class Variant:
    """Settings shared by some runs of a study. Variants with the same name are identical."""

    name: str  # its runs are in NAME-SEED
    given: Mapping[str, Any]  # settings of the variant
    adapts: bool = False  # whether even the given batch size, epochs and patience change on small data


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study, complete or planned."""

    variant: Variant
    folder: Path
    given: Mapping[str, Any]  # settings of the study and the variant; the others have the task's defaults
    settings: FitSettings

    @property
    def is_complete(self) -> bool:
        """Whether the run is complete."""
        return (self.folder / files.RESULTS).exists()


@dataclass(frozen=True)
class EpochScore:
    """The dev score after an epoch."""

    epoch: int
    updates: int  # so far
    score: float


@dataclass(frozen=True)
class Outcome:
    """Results of a complete run."""

    record: Mapping[str, Any]  # settings record
    dev: float
    test: float | None
    best: EpochScore
    epochs: tuple[EpochScore, ...]  # all of them

    def first_to_reach(self, score: float) -> EpochScore | None:
        """The first epoch with at least this dev score, or None."""
        return next((epoch for epoch in self.epochs if epoch.score >= score), None)


class Study:
    """The runs of all variants and seeds."""

    def __init__(
        self,
        task: Task[Any, Any],
        given: Mapping[str, Any],
        data: Data,
        folder: Path,
        variants: Sequence[Variant],
        seeds: Sequence[int],
    ) -> None:
        """given: settings of all runs that differ from the task's defaults."""
        if not data.train:
            raise ConfigError("--train: expected a file of training data, found none")
        self.task, self.data, self.folder, self.seeds = task, data, folder, tuple(seeds)
        names = {variant.name: variant for variant in variants}
        self.runs = tuple(
            PlannedRun(variant, folder / f"{name}-{seed}", chosen, task.settings(**chosen))
            for name, variant in names.items()
            for seed in self.seeds
            for chosen in ({**given, **variant.given, "seed": seed},)
        )
        self._files = data.record()

    def check(self) -> None:
        """Check that the folder can take the study, and that existing runs belong to it.

        Called before training, because runs with different settings are not comparable.
        """
        if (self.folder / files.SETTINGS).exists():
            raise OutputError(f"{self.folder}: expected a folder for many runs, found a run; choose another -o")
        results = self.folder / RESULTS
        check_target(results, overwrite=True)
        if results.exists():
            read_results(results)  # our own results file may be replaced when there are more runs
        for path in sorted(self.folder.glob(f"*/{files.SETTINGS}")):
            files.read_record(path.parent, self.task.name)
        for run in self.runs:
            if not (run.folder / files.SETTINGS).exists():
                require_room(run.folder, self.task.name, overwrite=False)
            elif found := self._differences(run):
                raise ConfigError(
                    f"{run.folder}: expected a run with the same settings, found {'; '.join(found)}; use the same "
                    "settings again, or choose another -o"
                )

    def _differences(self, run: PlannedRun) -> list[str]:
        record = files.read_record(run.folder, self.task.name)
        then = asdict(settings_from_json(self.task.settings, record["settings"], str(run.folder / files.SETTINGS)))
        fixed = [name for name in run.given if not (run.variant.adapts and name in ADAPTED)]
        now = asdict(scaled(run.settings, fixed, record["examples"]["train"]))
        found = [
            f"{flag(name)} {then.get(name)} there, {now.get(name)} now"
            for name in sorted(then.keys() | now.keys())
            if then.get(name) != now.get(name)
        ]
        for name in ("train", "dev", "test"):
            if _hashes(record["data"][name]) != _hashes(self._files[name]):
                found.append(f"a different or changed file as --{name}")
        return found

    def outcomes(self) -> dict[str, list[Outcome]]:
        """Results by variant, in the order of the seeds; all runs must be complete."""
        found: dict[str, list[Outcome]] = {}
        for run in self.runs:
            found.setdefault(run.variant.name, []).append(read_outcome(run.folder, self.task.name))
        records = [outcome.record for group in found.values() for outcome in group]
        for name, hashes in (
            ("biLM", {record["model"]["fingerprint"] for record in records if record["model"]}),
            ("word vectors", {_hashes(record["vectors"]) for record in records}),
        ):
            if len(hashes) > 1:
                raise InputError(
                    f"{self.folder}: expected runs with the same {name}, found {len(hashes)} different ones; the file "
                    "changed meanwhile: start again with another -o"
                )
        return found

    def results(self, kind: str, numbers: Mapping[str, Any], outcomes: Mapping[str, list[Outcome]]) -> Results:
        """Results of the study."""
        records = [outcome.record for group in outcomes.values() for outcome in group]
        paths = [*self.data.train, self.data.dev, self.data.test, self.runs[0].settings.vectors]
        facts = {"task": self.task.name, "metric": self.task.metric, "seeds": list(self.seeds), **numbers}
        model = next((run_model(record) for record in records if record["model"]), None)
        data = file_facts(path for path in paths if path is not None)
        return Results(kind, command_line(), model, data, facts, seeds=self.seeds)


def read_outcome(folder: Path, task: str) -> Outcome:
    """Read a complete run."""
    record, results = files.read_record(folder, task), files.read_results(folder)
    lines = files.read_epochs(folder)
    try:
        metric = results["metric"]
        epochs = {line["epoch"]: EpochScore(line["epoch"], line["step"], line[metric]) for line in lines}
        test = results["test"][metric] if results["test"] else None
        best = epochs[results["best_epoch"]]
        return Outcome(record, results["dev"][metric], test, best, tuple(epochs.values()))
    except (KeyError, TypeError) as error:
        raise FormatError(f"{folder}: expected the results of a run, found others ({error!r})") from None


def run_model(record: Mapping[str, Any]) -> ModelFacts:
    """The biLM of a run with ELMo."""
    path = record["model"]["path"]
    return ModelFacts(Path(path).name if path else PACKAGED, record["model"]["fingerprint"])


def scores_of(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Dev scores of the runs, and test scores if present."""
    return {"dev": [o.dev for o in outcomes], "test": [o.test for o in outcomes if o.test is not None]}


def gain(outcomes: Sequence[Outcome], baseline: Sequence[Outcome]) -> float:
    """Gain of the mean over the baseline in points, on the test data if present, otherwise on the dev data."""
    ours, theirs = scores_of(outcomes), scores_of(baseline)
    part = "test" if ours["test"] and theirs["test"] else "dev"
    return fmean(ours[part]) - fmean(theirs[part])


def _hashes(facts: Any) -> tuple[str, ...]:
    """SHA-256 digests in a record of one file, several files or None."""
    return tuple(fact["sha256"] for fact in (facts if isinstance(facts, list) else [facts]) if fact)
