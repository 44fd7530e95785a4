"""What commands that train tasks have in common: their options, and how a run is made."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from elmokit.cli import training

if TYPE_CHECKING:
    from elmokit.tasks.layer_cache import LayerCache
    from elmokit.tasks.run import Data
    from elmokit.tasks.task import Task

TrainFiles = Annotated[
    list[str] | None, typer.Option("--train", metavar="FILE", help="Training data; may be repeated.")
]
DevFile = Annotated[
    str | None, typer.Option("--dev", metavar="FILE", help="Decides which epoch is best; else some is held out.")
]
TestFile = Annotated[str | None, typer.Option("--test", metavar="FILE", help="Scored once, with the best weights.")]
CacheFolder = Annotated[
    Path | None, typer.Option("--cache-dir", metavar="FOLDER", help="Of layers; by default ~/.cache/elmokit.")
]
CacheLimit = Annotated[
    float, typer.Option("--cache-limit", metavar="GB", min=0, max=1e6, help="Size of the cache, at most.")
]


def with_settings(command: Callable[..., None], settings: type, *, behind: str, but: Collection[str] = ()) -> None:
    """Give a command a flag for every setting of a task in the place of its `**values`; what is not given is None.

    behind: the parameter of its own that they follow in `--help`. but: settings that the command decides itself.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[:-1]  # all but **values
    cut = [parameter.name for parameter in own].index(behind) + 1
    flags = [parameter for parameter in _flags(settings) if parameter.name not in but]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own[:cut], *flags, *own[cut:])]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _flags(settings: type) -> Iterator[inspect.Parameter]:
    """A parameter for every field of a task's settings, the task's own first."""
    from dataclasses import fields

    from elmokit.tasks.settings import FitSettings, base_of, default_of, described, flag

    hints = get_type_hints(settings)
    shared = {item.name for item in fields(FitSettings)}
    for item in sorted(fields(settings), key=lambda item: item.name in shared):
        kind, default = base_of(hints[item.name]), default_of(item)
        names = [f"{flag(item.name)}/--no-{flag(item.name)[2:]}" if kind is bool else flag(item.name)]
        shown = "" if default is None else f" [{('yes' if default else 'no') if kind is bool else default}]"
        info = typer.Option(*names, help=described(settings, item.name)["help"] + shown, show_default=False)
        yield inspect.Parameter(
            item.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
        )


def given_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among the flags that were given, with paths that lead there from any folder."""
    given = {key: value for key, value in values.items() if value is not None}
    for key in ("model", "vectors"):
        if key in given and (key == "vectors" or Path(given[key]).exists()):
            given[key] = training.absolute(given[key])
    return given


def data_files(train: list[str] | None, dev: str | None, test: str | None) -> Data:
    """The files of a run, with paths that lead there from any folder."""
    from elmokit.tasks.run import Data

    files = tuple(str(training.absolute(path)) for path in train or ())
    return Data(files, training.absolute(dev), training.absolute(test))


def make_run(
    task: Task[Any, Any], given: Mapping[str, Any], data: Data, folder: Path, *, cache: LayerCache, quiet: bool,
    resume: bool = False, overwrite: bool = False, device: str | None = None, again: str = "--resume",
) -> None:  # fmt: skip
    """Begin a run or take it up, and follow it to its end; `again` is what makes it go on after an interruption."""
    from elmokit.cli.task_progress import follow
    from elmokit.tasks.run import open_run
    from elmokit.weights.lock import locked

    with locked(folder), warnings():
        with counting("computing layers", quiet=quiet) as progress:
            run = open_run(
                task, given, data, folder, resume=resume, overwrite=overwrite, device=device, cache=cache,
                command=training.command_line(), progress=progress,
            )  # fmt: skip
        follow(run, quiet=quiet, again=again)


def set_threads(threads: int | None) -> None:
    """Use so many threads; None is as many as torch likes."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def layer_cache(folder: Path | None, limit: float) -> LayerCache:
    """The cache that `--cache-dir` and `--cache-limit` name."""
    from elmokit.tasks.layer_cache import LayerCache

    return LayerCache(training.expanded(folder) if folder is not None else None, limit=int(limit * 1e9))


@contextmanager
def warnings() -> Iterator[None]:
    """Show what the tasks log as lines on standard error."""

    class Echo(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            typer.echo(f"elmo: warning: {record.getMessage()}", err=True)

    log, handler = logging.getLogger("elmokit.tasks"), Echo()
    log.addHandler(handler)
    propagate, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


@contextmanager
def counting(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A function to call with how much is done of how much."""
    with training.counting(what, quiet=quiet) as show:
        yield lambda done, total: show(done / max(1, total))
