"""What a report is made of: results files and runs, and which models they are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elmokit.analysis.page import Block, Listing, Section
from elmokit.analysis.results import ModelFacts, Results, read_results
from elmokit.analysis.study import RESULTS, run_model
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.tasks import folder as files
from elmokit.tasks.compare import Comparison, compare, runs_in

KINDS = (
    "ablate", "sample-efficiency", "weights", "neighbors", "compare", "polysemy", "wsd", "probe", "perplexity",
)  # fmt: skip
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Found:
    """A results file."""

    path: Path
    results: Results

    @contextmanager
    def reading(self) -> Iterator[Results]:
        """Its results; what is not as its kind has it is a FormatError."""
        try:
            yield self.results
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise FormatError(
                f"{self.path}: expected the numbers of elmo {self.results.kind}, found others ({error!r})"
            ) from None

    def source(self) -> Block:
        """The command that made it, and what it was made from."""
        lines = [self.results.command]
        if self.results.model:
            lines.append(f"# model {_described(self.results.model)}")
        lines += [f"# read {Path(f.path).name}: {f.bytes:,} bytes, SHA-256 {f.sha256[:12]}" for f in self.results.data]
        return Listing("\n".join([*lines, f"# elmokit {self.results.version}"]))


@dataclass(frozen=True)
class Part:
    """A section of the report, and what it lacks."""

    section: Section
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inputs:
    """All that was given."""

    found: tuple[Found, ...]
    tasks: Mapping[str, Comparison]  # the runs, by task

    def of(self, kind: str) -> list[Found]:
        """The results of one kind, in the order in which they were given."""
        return [one for one in self.found if one.results.kind == kind]

    def models(self) -> dict[str, tuple[ModelFacts, str]]:
        """By fingerprint: the models that took part, each with a place that says so."""
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
    """Read results files and runs. A folder is a run, or what `elmo ablate` made, or has runs in it.

    Results of different models are refused unless they are to be `mixed`: side by side on one page they would read as
    those of one model.
    """
    found: dict[Path, Found] = {}
    runs: dict[Path, str] = {}
    for path in paths:
        if path.is_dir() and ((path / files.SETTINGS).exists() or not (path / RESULTS).exists()):
            for folder in runs_in(path):
                runs.setdefault(folder, files.read_record(folder)["task"])
        elif path.exists():
            file = path / RESULTS if path.is_dir() else path
            found.setdefault(file, Found(file, _read(file)))
        else:
            raise InputError(f"{path}: expected a results file or the folder of a run, found nothing there")
    tasks = {task: compare([folder for folder in runs if runs[folder] == task]) for task in sorted(set(runs.values()))}
    inputs = Inputs(tuple(found.values()), tasks)
    models = inputs.models()
    if len(models) > 1 and not mixed:
        places = " and ".join(f"{_described(model)} in {place}" for model, place in models.values())
        raise ConfigError(f"expected results of one model, found {places}; leave some out, or say --mixed")
    return inputs


def _read(path: Path) -> Results:
    results = read_results(path)
    if results.kind not in KINDS:
        raise FormatError(f"{path}: expected results of {', '.join(KINDS)}, found {results.kind!r}")
    return results


def _described(model: ModelFacts) -> str:
    return f"{model.name} ({model.fingerprint[:12]})"
