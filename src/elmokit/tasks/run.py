"""A training run in a folder: what made it, checkpoints, metrics, the best weights, and the scores."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import elmokit
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.tasks import folder as files
from elmokit.tasks.fit import Epoch, FitState, Step, fit
from elmokit.tasks.layer_cache import LayerCache, LayerSource, Progress
from elmokit.tasks.model import TaskModel, warn_of_labels
from elmokit.tasks.settings import FitSettings, flag, from_json
from elmokit.tasks.subset import subset
from elmokit.tasks.task import Task
from elmokit.training import checkpoint
from elmokit.training.digest import file_sha256
from elmokit.training.metrics import Metrics
from elmokit.weights.lock import LOCK

LOG_EVERY = 20  # steps between two lines of metrics
CHANGEABLE = ("epochs", "patience")  # what may differ between a run and its resumption: how long it goes on


@dataclass(frozen=True)
class Data:
    """The files of a run."""

    train: tuple[str, ...] = ()
    dev: str | None = None  # None: part of the training data is held out
    test: str | None = None

    def record(self) -> dict[str, Any]:
        """Paths and hashes."""
        return {
            "train": [_file(path) for path in self.train],
            "dev": _file(self.dev) if self.dev else None,
            "test": _file(self.test) if self.test else None,
        }


@dataclass
class Run:
    """A run that `open_run` has begun or taken up; `go` makes its steps."""

    folder: Path
    model: TaskModel
    state: FitState
    train: list[Any]
    dev: list[Any]
    test: list[Any]
    layers: LayerSource | None
    faults: list[str] = field(default_factory=list)  # of checkpoints that were passed over

    @property
    def results(self) -> dict[str, Any] | None:
        """What `results.json` says, once the run is complete."""
        return files.read_json(self.folder / files.RESULTS) if (self.folder / files.RESULTS).exists() else None

    def go(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Step | Epoch]:
        """Train to the end, or until asked to stop; everything worth keeping is kept on the way."""
        if self.results is not None:
            return
        model, task = self.model, self.model.task
        reader = model.reader(self.layers)
        with Metrics(self.folder, self.state.step) as metrics:
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
        """Write the best weights and their scores; checkpoints are of no use any more."""
        model, best = self.model, self.state.best
        assert best is not None
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
        shutil.rmtree(self.folder / files.CHECKPOINTS, ignore_errors=True)


def open_run(
    task: Task[Any, Any], given: Mapping[str, Any], data: Data, folder: Path, *, resume: bool = False,
    overwrite: bool = False, device: str | None = None, cache: LayerCache | None = None, command: str = "",
    progress: Progress = lambda done, total: None,
) -> Run:  # fmt: skip
    """Begin a run in a folder, or take it up.

    given: hyper-parameters that the user asked for; the others have the task's defaults. With `resume`, where there is
    a run already, what it was made with counts, and anything else that was given is an error. device: "cpu", "cuda",
    "cuda:1", ...; by default a GPU where there is one.
    """
    is_old = resume and (folder / files.SETTINGS).exists()
    if is_old:
        record = files.read_record(folder, task.name)
        settings, data = _resumed(task, record, given, data, folder)
    else:
        require_room(folder, task.name, overwrite=overwrite)
        settings = task.settings(**given)
        if not data.train:
            raise ConfigError("--train: expected a file of training data, found none")
    train, dev, test = _read(task, settings, data)
    examples = task.training_examples(train, settings)
    kept, faults = checkpoint.latest(folder / files.CHECKPOINTS) if is_old else (None, [])
    is_complete = is_old and (folder / files.RESULTS).exists()
    is_new = kept is None and not is_complete
    if is_new:
        model = TaskModel.begin(task, settings, train, [*dev, *test], device=device)
    else:
        model = TaskModel.from_pretrained(folder, complete=kept is None, device=device)
    layers = None
    if not is_complete:
        layers = model.cached_layers(cache or LayerCache(), [*examples, *dev, *test], progress)
    if is_new:
        _clear(folder)  # now that nothing is missing for the new run
        folder.mkdir(parents=True, exist_ok=True)
        # first of all files: whatever may interrupt the others, the folder is then known as that of a run
        files.write_json(folder / files.SETTINGS, _record(model, data, command, (examples, dev, test)))
        model.save_words(folder)
    model.settings = settings
    for name, part in (("dev", dev), ("test", test)):
        if part:
            warn_of_labels(task, model.labels, part, f"{name} data")
    state = FitState(model.network, settings)
    if kept is not None:
        state.restore(kept)
    return Run(folder, model, state, examples, dev, test, layers, faults)


def require_room(folder: Path, task: str, *, overwrite: bool) -> None:
    """See that a folder can take a new run: there is none, or with `overwrite` an old run of the task."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: expected a folder or nothing, found a file; choose another name")
    if not _content(folder):
        return
    if not (folder / files.SETTINGS).is_file():
        raise OutputError(f"{folder}: expected an empty folder or none, found other files; choose another name")
    files.read_record(folder, task)
    if not overwrite:
        raise OutputError(f"{folder}: has a run already; go on with --resume, or replace it with --overwrite")


def _content(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != LOCK] if folder.exists() else []


def _clear(folder: Path) -> None:
    for path in _content(folder):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _resumed(
    task: Task[Any, Any], record: Mapping[str, Any], given: Mapping[str, Any], data: Data, folder: Path
) -> tuple[FitSettings, Data]:
    """The settings and the files of a run that goes on."""
    old: FitSettings = from_json(task.settings, record["settings"], str(folder / files.SETTINGS))
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
            f"--resume: expected what the run was made with, found {'; '.join(differences)}; leave it out, or begin "
            "another run with another -o"
        )
    return replace(old, **{name: value for name, value in given.items() if name in CHANGEABLE}), again


def _pairs(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The hashes of the files, then and now."""
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
    """Everything that made the run."""
    settings = model.settings
    return {
        "task": model.task.name,
        "command": command,
        "versions": {
            "elmokit": elmokit.__version__, "python": platform.python_version(), "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} thread(s), {model.device}",
        "data": data.record(),
        "examples": dict(zip(("train", "dev", "test"), map(len, parts), strict=True)),
        "model": model.bilm.record() if model.bilm else None,
        "vectors": _file(settings.vectors) if settings.vectors else None,
        "settings": asdict(settings),
    }  # fmt: skip


def _file(path: str) -> dict[str, str]:
    return {"path": path, "sha256": file_sha256(Path(path))}
