"""Training run in a folder: provenance, checkpoints, metrics, best weights and scores."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import elmokit
from elmokit.disk.digest import file_sha256
from elmokit.disk.lock import locked
from elmokit.errors import ConfigError, FormatError, InputError, OutputError
from elmokit.nn.device import cpu_name
from elmokit.tasks.runs import run_folder as files
from elmokit.tasks.runs.fit import Epoch, FitState, FitStep, fit
from elmokit.tasks.runs.layer_cache import CountProgress, LayerCache, LayerSource
from elmokit.tasks.runs.small_data import ADAPTED, scaled
from elmokit.tasks.runs.subset import subset
from elmokit.tasks.runs.task_model import TaskModel, warn_of_labels
from elmokit.tasks.shared.task_base import Task, log
from elmokit.tasks.shared.task_settings import FitSettings
from elmokit.training import checkpoint
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.metrics import MetricsLog
from elmokit.training.settings_fields import flag, settings_from_json

LOG_EVERY = 20  # steps between two lines of metrics
CHANGEABLE = ("epochs", "patience")  # settings that may change on resumption: the length of training


@dataclass(frozen=True)
class Data:
    """Data files of a run."""

    train: tuple[str, ...] = ()
    dev: str | None = None  # None: a part of the training data is held out
    test: str | None = None

    def record(self) -> dict[str, Any]:
        """Paths and digests."""
        return {
            "train": [_file(path) for path in self.train],
            "dev": _file(self.dev) if self.dev else None,
            "test": _file(self.test) if self.test else None,
        }


@dataclass
class TaskRun:
    """A run started or resumed by `open_run`; `go` trains it."""

    folder: Path
    model: TaskModel
    state: FitState
    train: list[Any]
    dev: list[Any]
    test: list[Any]
    layers: LayerSource | None
    faults: list[str] = field(default_factory=list)  # of checkpoints that were skipped

    @property
    def results(self) -> dict[str, Any] | None:
        """Content of `results.json`, once the run is complete."""
        return files.read_results(self.folder) if (self.folder / files.RESULTS).exists() else None

    def go(self, stop: Callable[[], bool] = lambda: False) -> Iterator[FitStep | Epoch]:
        """Train to the end or until asked to stop, writing checkpoints and metrics."""
        if self.results is not None:
            return
        model, task = self.model, self.model.task
        reader = model.reader(self.layers)
        with MetricsLog(self.folder, self.state.step) as metrics:
            for event in fit(
                self.state,
                sizes=[task.size(example) for example in self.train],
                batch_of=lambda chosen: reader.batch([self.train[k] for k in chosen]),
                evaluate=lambda: task.score(self.dev, model.predictions(self.dev, self.layers)),
                metric=task.metric,
                stop=stop,
            ):
                if isinstance(event, Epoch):
                    values = {"loss": event.loss, "seconds": event.seconds, "learning_rate": event.learning_rate}
                    metrics.write("epoch", event.step, {"epoch": event.epoch, **values, **event.scores})
                    self._save()
                elif event.step % LOG_EVERY == 0:
                    metrics.write("step", event.step, {k: v for k, v in asdict(event).items() if k != "step"})
                yield event
        if self.state.is_done:
            self._finish()
        elif self.state.position:
            self._save()

    def _save(self) -> None:
        checkpoint.write(self.state.to_checkpoint(), self.folder / files.CHECKPOINTS)
        checkpoint.prune(self.folder / files.CHECKPOINTS, None)

    def _finish(self) -> None:
        """Save the best weights and their scores, and delete the checkpoints."""
        model, best = self.model, self.state.best
        assert best is not None
        metric = model.task.metric
        if not best["scores"][metric]:
            log.warning(
                "dev %s is 0 after %s updates: the network has learned nothing; train for more epochs, in "
                "smaller batches, or at another learning rate",
                metric,
                f"{self.state.step:,}",
            )
        model.save_weights(self.folder)
        test = model.task.score(self.test, model.predictions(self.test, self.layers)) if self.test else None
        mixes = model.network.inputs.mix_weights()
        files.write_json(
            self.folder / files.RESULTS,
            {
                "metric": model.task.metric,
                "dev": best["scores"],
                "test": test,
                "best_epoch": best["epoch"],
                "epochs": self.state.epoch,
                "seconds": round(self.state.seconds, 2),
                "seconds_to_best": round(best["seconds"], 2),
                "parameters": sum(p.numel() for p in model.network.parameters() if p.requires_grad),
                "mix": {place: {"weights": weights, "gamma": gamma} for place, (weights, gamma) in mixes.items()},
            },
        )
        checkpoint.remove_all(self.folder / files.CHECKPOINTS)


def remove_remains(folder: Path) -> None:
    """Remove what a complete run that was killed at its very end has left: checkpoints, lock, temporary files."""
    with locked(folder):
        checkpoint.remove_all(folder / files.CHECKPOINTS)


def open_run(
    task: Task[Any, Any],
    given: Mapping[str, Any],
    data: Data,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    cache: LayerCache | None = None,
    command: str = "",
    adapt: bool = False,
    progress: CountProgress = lambda done, total: None,
) -> TaskRun:
    """Start a run in a folder, or resume it.

    given: hyperparameters set by the user; the others have the task's defaults. With `resume`, an existing run keeps
    its own settings, and a conflicting value in `given` is an error. device: "cpu", "cuda", "cuda:1", ...; by default
    a GPU if available. adapt: `given` batch size, epochs and patience change on small data, as the defaults do.
    """
    fixed = {name: value for name, value in given.items() if not (adapt and name in ADAPTED)}
    is_old = resume and (folder / files.SETTINGS).exists()
    if is_old:
        record = files.read_record(folder, task.name)
        settings, data = _resumed(task, record, fixed, data, folder)
    else:
        require_room(folder, task.name, overwrite=overwrite)
        settings = task.settings(**given)
        if not data.train:
            raise ConfigError("--train: expected a file of training data, found none")
    train, dev, test = _read(task, settings, data)
    examples = task.training_examples(train, settings)
    if not is_old:
        settings = scaled(settings, fixed, len(examples))
    is_complete = is_old and (folder / files.RESULTS).exists()
    kept: Checkpoint | None = None
    faults: list[str] = []
    if is_old and not is_complete and checkpoint.paths(folder / files.CHECKPOINTS):
        model = TaskModel.from_pretrained(folder, complete=False, device=device)
        _require_labels(model, train, folder)
        kept, faults = checkpoint.latest(folder / files.CHECKPOINTS, FitState(model.network, settings).check)
    elif is_complete:
        checkpoint.remove_all(folder / files.CHECKPOINTS)  # of a run that was killed at its very end
        model = TaskModel.from_pretrained(folder, device=device)
    else:
        model = TaskModel.begin(task, settings, train, [*dev, *test], device=device)
    is_new = kept is None and not is_complete
    layers = None
    if not is_complete:
        layers = model.cached_layers(cache or LayerCache(), [*examples, *dev, *test], progress)
    if is_new:
        files.RUN_FOLDER.remove(folder)  # only now, when all inputs of the new run have been read
        folder.mkdir(parents=True, exist_ok=True)
        # written first, so that an interrupted run is recognized as one
        files.write_json(folder / files.SETTINGS, _record(model, data, command, (examples, dev, test)))
        model.save_words(folder)
    model.settings = settings
    for name, part in (("dev", dev), ("test", test)):
        if part:
            warn_of_labels(task, model.labels, part, f"{name} data")
    state = FitState(model.network, settings)
    if kept is not None:
        state.restore(kept)
    return TaskRun(folder, model, state, examples, dev, test, layers, faults)


def _require_labels(model: TaskModel, train: Sequence[Any], folder: Path) -> None:
    """Check that the stored labels include all of the training data; otherwise the file is damaged."""
    for kind, labels in model.task.labels(train).items():
        if missing := sorted(set(labels) - set(model.labels.get(kind, ()))):
            raise FormatError(
                f"{folder / files.LABELS}: expected all {kind} of the training data, found no {missing[0]!r}; start "
                "again with --overwrite"
            )


def require_room(folder: Path, task: str, *, overwrite: bool) -> None:
    """Check that a folder can take a new run: it is absent or empty, or `overwrite` replaces a run of the task."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: expected a folder or nothing, found a file; choose another name")
    if files.RUN_FOLDER.is_empty(folder):
        return
    if not (folder / files.SETTINGS).is_file():
        raise OutputError(f"{folder}: expected an empty folder or none, found other files; choose another name")
    files.read_record(folder, task)
    if not overwrite:
        raise OutputError(
            f"{folder}: already contains a run; continue it with --resume, or replace it with --overwrite"
        )
    files.RUN_FOLDER.require(folder)


def _resumed(
    task: Task[Any, Any], record: Mapping[str, Any], given: Mapping[str, Any], data: Data, folder: Path
) -> tuple[FitSettings, Data]:
    """Settings and data files of a resumed run."""
    old: FitSettings = settings_from_json(task.settings, record["settings"], str(folder / files.SETTINGS))
    differences = [
        f"{flag(name)} {getattr(old, name)} in the run, {value} now"
        for name, value in given.items()
        if name not in CHANGEABLE and value != getattr(old, name)
    ]
    kept = record["data"]
    again = Data(
        data.train or tuple(item["path"] for item in kept["train"]),
        data.dev or (kept["dev"] or {}).get("path"),
        data.test or (kept["test"] or {}).get("path"),
    )
    for name, then, now in _pairs(kept, again.record()):
        if then != now:
            differences.append(f"--{name} is another file, or has changed")
    if differences:
        raise ConfigError(
            f"--resume: expected what the run was made with, found {'; '.join(differences)}; leave it out, or start "
            "another run with another -o"
        )
    return replace(old, **{name: value for name, value in given.items() if name in CHANGEABLE}), again


def _pairs(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Recorded and current digests of the files."""
    yield "train", [item["sha256"] for item in then["train"]], [item["sha256"] for item in now["train"]]
    for name in ("dev", "test"):
        yield name, (then[name] or {}).get("sha256"), (now[name] or {}).get("sha256")


def _read(task: Task[Any, Any], settings: FitSettings, data: Data) -> tuple[list[Any], list[Any], list[Any]]:
    parts = []
    for name, paths in (("train", data.train), ("dev", [data.dev]), ("test", [data.test])):
        examples = [example for path in paths if path is not None for example in task.read(Path(path))]
        if any(paths) and not examples:
            raise InputError(f"--{name}: expected examples of the task {task.name} in {paths[0]}, found none")
        parts.append(examples)
    train, dev, test = parts
    if data.dev is None:
        train, dev = task.hold_out(train, settings)
        if not train or not dev:
            raise InputError(f"--dev: expected a file, or enough training data to hold some out, found {len(train)}")
    return subset(train, settings.train_fraction, settings.seed), dev, test


def _record(model: TaskModel, data: Data, command: str, parts: Sequence[list[Any]]) -> dict[str, Any]:
    """Provenance record of the run."""
    settings = model.settings
    return {
        "task": model.task.name,
        "command": command,
        "versions": {
            "elmokit": elmokit.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "machine": _machine(model.device),
        "data": data.record(),
        "examples": dict(zip(("train", "dev", "test"), map(len, parts), strict=True)),
        "model": model.bilm.record() if model.bilm else None,
        "vectors": _file(settings.vectors) if settings.vectors else None,
        "settings": asdict(settings),
    }


def _machine(device: torch.device) -> str:
    """Class of the machine, and the device of the network."""
    return f"{platform.system()} {platform.machine()}, {cpu_name()}, {torch.get_num_threads()} thread(s), {device}"


def _file(path: str) -> dict[str, str]:
    return {"path": path, "sha256": file_sha256(Path(path))}
