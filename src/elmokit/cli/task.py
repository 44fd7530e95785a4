"""`elmo task`: train, evaluate and use the tasks. One function a verb serves them all."""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command

from elmokit.cli import training
from elmokit.cli.task_compare import compare
from elmokit.tasks.table import TASKS, get_task

if TYPE_CHECKING:
    from elmokit.tasks.task import Task

ABOUT = {
    "ner": "Named entities: spans of tokens and their types.",
    "sst": "Sentiment of a sentence.",
    "snli": "Whether one sentence follows from another.",
    "squad": "Answers to questions about a passage.",
    "srl": "Who did what to whom: predicates and their arguments.",
    "coref": "Which mentions in a document are of the same thing.",
}

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
Model = Annotated[
    str | None, typer.Option(metavar="PATH", help="Where the biLM of the run is now, if it is not where it was.")
]
CacheFolder = Annotated[
    Path | None, typer.Option("--cache-dir", metavar="FOLDER", help="Of layers; by default ~/.cache/elmokit.")
]
CacheLimit = Annotated[float, typer.Option("--cache-limit", metavar="GB", min=0, help="Size of the cache, at most.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class _Tasks(TyperGroup):
    """A group of commands a task, made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The tasks, then what is for all of them."""
        return [*TASKS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The commands of one task."""
        return get_command(_verbs(cmd_name)) if cmd_name in TASKS else super().get_command(ctx, cmd_name)


class _Verbs(TyperGroup):
    """The commands of a task; `train` needs the task's settings, and torch with them, so it is made last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """train comes first."""
        return ["train", *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; `train` has a flag for every setting of the task."""
        assert self.name is not None
        return _train_command(self.name) if cmd_name == "train" else super().get_command(ctx, cmd_name)


task = typer.Typer(cls=_Tasks, no_args_is_help=True, rich_markup_mode=None)
task.command(short_help="Compare runs: baseline, +ELMo, gain.")(compare)


@task.callback()
def _task() -> None:
    """Train, evaluate and use six tasks, with ELMo and without, for example:

    \b
    elmo task ner train --train eng.train --dev eng.testa --test eng.testb -o runs/ner
    elmo task ner evaluate runs/ner eng.testb
    echo "Angela Merkel met Barack Obama in Berlin ." | elmo task ner predict runs/ner
    """


def _verbs(name: str) -> typer.Typer:
    """`evaluate` and `predict` of one task, and the group that adds `train`."""
    verbs = typer.Typer(
        name=name, cls=_Verbs, help=ABOUT[name], no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )

    @verbs.command(
        short_help="Score a run on labelled data.",
        help=f"Print the scores of a run on labelled data: elmo task {name} evaluate runs/{name} test.txt",
    )
    def evaluate(
        run: RunFolder,
        file: Annotated[
            Path, typer.Argument(metavar="FILE", help="Labelled data, in the format of the training data.")
        ],
        model: Model = None,
        cache_dir: CacheFolder = None,
        cache_limit: CacheLimit = 20,
        threads: training.Threads = None,
        quiet: training.Quiet = False,
        as_json: AsJson = False,
    ) -> None:
        from elmokit.tasks.model import TaskModel

        _set_threads(threads)
        with _warnings():
            loaded = TaskModel.from_pretrained(run, model=model, task=name)
            with _counting("computing layers", quiet=quiet) as progress:
                scores = loaded.evaluate(file, cache=_cache(cache_dir, cache_limit), progress=progress)
        width = max(map(len, scores))
        typer.echo(json.dumps(scores) if as_json else "\n".join(f"{k:<{width}}  {v:6.2f}" for k, v in scores.items()))

    @verbs.command(
        short_help="Predict from raw text.",
        help=f"Predict from raw text, line by line: elmo task {name} predict runs/{name} text.txt",
    )
    def predict(
        run: RunFolder,
        file: Annotated[str, typer.Argument(metavar="FILE", help="Text, also compressed; - is standard input.")] = "-",
        model: Model = None,
        threads: training.Threads = None,
        as_json: Annotated[bool, typer.Option("--json", help="JSON lines on a terminal too.")] = False,
    ) -> None:
        from rich.console import Console

        from elmokit.tasks.model import TaskModel
        from elmokit.text.batch import windows

        _set_threads(threads)
        loaded = TaskModel.from_pretrained(run, model=model, task=name)
        at_once = 1 if file == "-" and sys.stdin.isatty() else loaded.settings.batch_size
        console = Console() if sys.stdout.isatty() and not as_json else None
        for examples in windows(_parsed(loaded.task, file), lambda _: 1, at_once):
            for pair in zip(examples, loaded.predictions(examples, loaded.live_layers()), strict=True):
                if console is not None:
                    console.print(loaded.task.show(*pair))
                else:
                    typer.echo(json.dumps(loaded.task.to_json(*pair), ensure_ascii=False))

    return verbs


def _parsed(task: Task[Any, Any], file: str) -> Iterator[Any]:
    """The examples of a text, line by line; what is wrong with a line says which."""
    from elmokit.errors import InputError
    from elmokit.text.lines import LineReader

    with LineReader(file) as reader:
        for line in reader:
            try:
                yield from task.parse(line)
            except InputError as error:
                raise InputError(f"{reader.name}: line {reader.line_number}: {error}") from None


def _train_command(name: str) -> Any:
    """`train` of a task: what all tasks have, and a flag for every setting."""
    chosen = get_task(name)
    flags = _flags(chosen.settings)

    def train(
        output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the run.")],
        train: Annotated[
            list[str] | None, typer.Option("--train", metavar="FILE", help="Training data; may be repeated.")
        ] = None,
        dev: Annotated[
            str | None,
            typer.Option("--dev", metavar="FILE", help="Decides which epoch is best; else some is held out."),
        ] = None,
        test: Annotated[
            str | None, typer.Option("--test", metavar="FILE", help="Scored once, with the best weights.")
        ] = None,
        resume: training.Resume = False,
        overwrite: training.Overwrite = False,
        cache_dir: CacheFolder = None,
        cache_limit: CacheLimit = 20,
        threads: training.Threads = None,
        quiet: training.Quiet = False,
        **values: Any,
    ) -> None:
        from elmokit.cli.task_progress import follow
        from elmokit.tasks.run import Data, open_run
        from elmokit.weights.lock import locked

        _set_threads(threads)
        given = {key: value for key, value in values.items() if value is not None}
        for key in ("model", "vectors"):
            if key in given and (key == "vectors" or Path(given[key]).exists()):
                given[key] = training.absolute(given[key])
        files = tuple(str(training.absolute(path)) for path in train or ())
        data = Data(files, training.absolute(dev), training.absolute(test))
        folder = output.expanduser()
        with locked(folder), _warnings():
            with _counting("computing layers", quiet=quiet) as progress:
                run = open_run(
                    chosen, given, data, folder, resume=resume, overwrite=overwrite,
                    cache=_cache(cache_dir, cache_limit), command=training.command_line(), progress=progress,
                )  # fmt: skip
            follow(run, quiet=quiet)

    own = list(inspect.signature(train, eval_str=True).parameters.values())[:-1]  # all but **values
    front, rest = own[:4], own[4:]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*front, *flags, *rest)]
    train.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    train.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(
        name="train",
        short_help="Train a model.",
        help=f"""Train a model for the task, for example:

        \b
        elmo task {name} train --train train.txt --dev dev.txt --test test.txt -o runs/{name}
        elmo task {name} train ... --no-elmo --vectors glove.txt -o runs/{name}-baseline

        The layers of the biLM are computed once and kept in a cache. After a crash the same command with --resume ends
        with the same weights. What is not said has the default in brackets.
        """,
    )(train)
    return get_command(app)


def _flags(settings: type) -> Iterator[inspect.Parameter]:
    """A parameter for every field of a task's settings, the task's own first; None is what was not given."""
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


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _cache(folder: Path | None, limit: float) -> Any:
    from elmokit.tasks.layer_cache import LayerCache

    return LayerCache(folder.expanduser() if folder is not None else None, limit=int(limit * 1e9))


@contextmanager
def _warnings() -> Iterator[None]:
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
def _counting(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A function to call with how much is done of how much."""
    with training.counting(what, quiet=quiet) as show:
        yield lambda done, total: show(done / max(1, total))
