"""Inputs of a report: results files and runs, and their models."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elmokit.analysis.report.page import Block, Listing, Section
from elmokit.analysis.shared.results import ModelFacts, Results, read_results
from elmokit.analysis.studies.study import RESULTS, run_model
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.tasks.runs import run_folder as files
from elmokit.tasks.runs.run_comparison import RunComparison, compare, runs_in

log = logging.getLogger(__name__)

KINDS = (
    "ablate",
    "sample-efficiency",
    "weights",
    "neighbors",
    "compare",
    "polysemy",
    "wsd",
    "probe",
    "perplexity",
    "finetuning",
    "map",
    "quality",
)
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class ResultsFile:
    """A results file."""

    path: Path
    results: Results

    @contextmanager
    def reading(self) -> Iterator[Results]:
        """Parsed results; a FormatError if they do not match their kind."""
        try:
            yield self.results
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise FormatError(
                f"{self.path}: expected the numbers of elmo {self.results.kind}, found others ({error!r})"
            ) from None

    def source(self) -> Block:
        """The command and its inputs, as shell comments."""
        lines = [self.results.command]
        if self.results.model:
            lines.append(f"# model {_described(self.results.model)}")
        lines += [f"# read {Path(f.path).name}: {f.bytes:,} bytes, SHA-256 {f.sha256[:12]}" for f in self.results.data]
        return Listing("\n".join([*lines, f"# elmokit {self.results.version}"]), "Command, model and files")


@dataclass(frozen=True)
class Part:
    """A section of the report, and its missing results."""

    section: Section
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inputs:
    """All inputs of a report."""

    found: tuple[ResultsFile, ...]
    tasks: Mapping[str, RunComparison]  # the runs, by task

    def of(self, kind: str) -> list[ResultsFile]:
        """Results of one kind, in the order given."""
        return [one for one in self.found if one.results.kind == kind]

    def models(self) -> dict[str, tuple[ModelFacts, str]]:
        """Models by fingerprint, each with a file that refers to it."""
        models: dict[str, tuple[ModelFacts, str]] = {}
        for one in self.found:
            if one.results.model is not None:
                models.setdefault(one.results.model.fingerprint, (one.results.model, str(one.path)))
        for comparison in self.tasks.values():
            for group in comparison.groups:
                if group.record["model"]:
                    model = run_model(group.record)
                    models.setdefault(model.fingerprint, (model, str(group.folders[0])))
        return models


def gather(paths: Sequence[Path], *, mixed: bool = False) -> Inputs:
    """Read results files and runs. A folder is a run, the output of `elmo ablate`, or a folder of runs and results.

    Results of different models are rejected unless `mixed` is set, because on one page they would look like results of
    one model.
    """
    found: dict[Path, ResultsFile] = {}
    runs: dict[Path, str] = {}
    for path in paths:
        if path.is_dir() and ((path / files.SETTINGS).exists() or not (path / RESULTS).exists()):
            inside = _results_in(path)
            found.update((one.path, one) for one in inside if one.path not in found)
            for folder in [] if inside and not any(path.glob(f"*/{files.SETTINGS}")) else runs_in(path):
                runs.setdefault(folder, files.read_record(folder)["task"])
        elif path.exists():
            file = path / RESULTS if path.is_dir() else path
            found.setdefault(file, ResultsFile(file, _read(file)))
        else:
            raise InputError(f"{path}: expected a results file or the folder of a run, found nothing there")
    tasks = {task: compare([folder for folder in runs if runs[folder] == task]) for task in sorted(set(runs.values()))}
    inputs = Inputs(tuple(found.values()), tasks)
    models = inputs.models()
    if len(models) > 1 and not mixed:
        places = " and ".join(f"{_described(model)} in {place}" for model, place in models.values())
        raise ConfigError(f"expected results of one model, found {places}; leave some out, or use --mixed")
    return inputs


def _results_in(folder: Path) -> list[ResultsFile]:
    """Results of the report's kinds in a folder, and in folders of `elmo ablate` and so on there; no other JSON."""
    if (folder / files.SETTINGS).exists():
        return []  # a run
    inside = []
    studies = [path for path in folder.glob(f"*/{RESULTS}") if not (path.parent / files.SETTINGS).exists()]
    for path in sorted([*folder.glob("*.json"), *studies]):
        try:
            inside.append(ResultsFile(path, _read(path)))
        except FormatError as error:
            log.info("skipped: %s", error)
    return inside


def _read(path: Path) -> Results:
    results = read_results(path)
    if results.kind not in KINDS:
        raise FormatError(f"{path}: expected results of {', '.join(KINDS)}, found {results.kind!r}")
    return results


def _described(model: ModelFacts) -> str:
    return f"{model.name} ({model.fingerprint[:12]})"
