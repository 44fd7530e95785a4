"""Common options of the commands that train tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmokit.cli import training
from elmokit.cli.progress import warnings as warnings
from elmokit.cli.setting_flags import with_settings

if TYPE_CHECKING:
    from elmokit.tasks.runs.layer_cache import LayerCache
    from elmokit.tasks.runs.task_run import Data
    from elmokit.tasks.shared.task_base import Task

TrainFiles = Annotated[list[str] | None, typer.Option("--train", metavar="FILE", help="Training data; repeatable.")]
DevFile = Annotated[
    str | None,
    typer.Option(
        "--dev", metavar="FILE", help="Development data, which selects the best epoch [--hold-out of --train]."
    ),
]
TestFile = Annotated[
    str | None, typer.Option("--test", metavar="FILE", help="Test data, scored once with the best weights.")
]
CacheFolder = Annotated[
    Path | None, typer.Option("--cache-dir", metavar="FOLDER", help="Folder of the layer cache [~/.cache/elmokit].")
]
CacheLimit = Annotated[
    float, typer.Option("--cache-limit", metavar="GB", min=0, max=1e6, help="Maximum size of the cache, in GB.")
]


def with_task_settings(
    command: Callable[..., None], settings: type, *, after: str, exclude: Collection[str] = ()
) -> Callable[..., None]:
    """The command with a flag for every setting of a task, the task's own first."""
    from elmokit.tasks.shared.task_settings import FitSettings

    shared = {item.name for item in fields(FitSettings)}
    return with_settings(command, settings, after=after, exclude=exclude, last=shared)


def given_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given as flags, with absolute paths."""
    given = {key: value for key, value in values.items() if value is not None}
    for key in ("model", "vectors"):
        if key in given and (key == "vectors" or Path(given[key]).exists()):
            given[key] = training.absolute(given[key])
    return given


def data_files(train: list[str] | None, dev: str | None, test: str | None) -> Data:
    """The files of a run, as absolute paths."""
    from elmokit.tasks.runs.task_run import Data

    files = tuple(str(training.absolute(path)) for path in train or ())
    return Data(files, training.absolute(dev), training.absolute(test))


def make_run(
    task: Task[Any, Any],
    given: Mapping[str, Any],
    data: Data,
    folder: Path,
    *,
    cache: LayerCache,
    quiet: bool,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    adapt: bool = False,
    again: str = "--resume",
) -> None:
    """Start or resume a run, and train it to its end with a progress display.

    again: flag or command that resumes the run, for the message after an interruption. adapt: as in `open_run`.
    """
    from elmokit.cli.task_progress import follow
    from elmokit.disk.lock import locked
    from elmokit.tasks.runs.task_run import open_run

    with locked(folder), warnings():
        with counting("computing layers", quiet=quiet) as progress:
            run = open_run(
                task,
                given,
                data,
                folder,
                resume=resume,
                overwrite=overwrite,
                device=device,
                cache=cache,
                command=training.command_line(),
                adapt=adapt,
                progress=progress,
            )
        follow(run, quiet=quiet, again=again)


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads; None keeps the default of torch."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def layer_cache(folder: Path | None, limit: float) -> LayerCache:
    """The cache that `--cache-dir` and `--cache-limit` name."""
    from elmokit.tasks.runs.layer_cache import LayerCache

    return LayerCache(training.expanded(folder) if folder is not None else None, limit=int(limit * 1e9))


@contextmanager
def counting(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Progress callback: (done, total)."""
    with training.counting(what, quiet=quiet) as show:
        yield lambda done, total: show(done / max(1, total))
