"""`elmo task`: train, evaluate and use the tasks. One function per verb serves them all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from elmokit.cli import training
from elmokit.cli.options import Overwrite, Quiet
from elmokit.cli.task_compare import compare
from elmokit.cli.task_options import (
    CacheFolder,
    CacheLimit,
    DevFile,
    TestFile,
    TrainFiles,
    counting,
    data_files,
    given_settings,
    layer_cache,
    make_run,
    set_threads,
    warnings,
    with_task_settings,
)
from elmokit.cli.task_pack import pack
from elmokit.cli.task_weights import weights
from elmokit.tasks.shared.task_registry import ABOUT, TASKS, get_task

if TYPE_CHECKING:
    from elmokit.tasks.shared.task_base import Task

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
Model = Annotated[
    str | None, typer.Option(metavar="PATH", help="biLM of the run, if it has moved since [the one in training].")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


class _Tasks(TyperGroup):
    """One group of commands per task, created on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The tasks, then the commands common to all."""
        return [*TASKS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The commands of one task."""
        return get_command(_verbs(cmd_name)) if cmd_name in TASKS else super().get_command(ctx, cmd_name)


class _Verbs(TyperGroup):
    """The commands of a task; `train` is created on demand: it needs the task's settings, and torch with them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """train comes first."""
        return ["train", *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; `train` has a flag for every setting of the task."""
        assert self.name is not None
        return _train_command(self.name) if cmd_name == "train" else super().get_command(ctx, cmd_name)


task = typer.Typer(cls=_Tasks, no_args_is_help=True, rich_markup_mode=None)
task.command(short_help="Compare runs: baseline, +ELMo, gain.")(compare)
task.command(short_help="Show which layers the runs chose.")(weights)
task.command(short_help="Pack a run as a tagger for `elmo tag`.")(pack)


@task.callback()
def _task() -> None:
    """Train, evaluate and use task models, with ELMo and without, for example:

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
        short_help="Score a run on labeled data.",
        help=f"Print the scores of a run on labeled data: elmo task {name} evaluate runs/{name} test.txt",
    )
    def evaluate(
        run: RunFolder,
        file: Annotated[Path, typer.Argument(metavar="FILE", help="Labeled data, in the format of the training data.")],
        model: Model = None,
        cache_dir: CacheFolder = None,
        cache_limit: CacheLimit = 20,
        device: training.Device = None,
        threads: training.Threads = None,
        quiet: Quiet = False,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", metavar="JSON", help="Also write the results to this file.")
        ] = None,
        overwrite: Overwrite = False,
        as_json: AsJson = False,
    ) -> None:
        from elmokit.analysis.shared.results import (
            Results,
            check_target,
            command_line,
            file_facts,
            model_facts,
            write_results,
        )
        from elmokit.tasks.runs.task_model import TaskModel

        if output is not None:
            check_target(output, overwrite=overwrite)

        set_threads(threads)
        with warnings():
            loaded = TaskModel.from_pretrained(run, model=model, task=name, device=device)
            with counting("computing layers", quiet=quiet) as progress:
                scores = loaded.evaluate(file, cache=layer_cache(cache_dir, cache_limit), progress=progress)
        if output is not None:
            bilm = model_facts(loaded.bilm.model) if loaded.bilm is not None else None
            numbers = {"task": name, "scores": scores}
            seeds = (loaded.settings.seed,)
            results = Results("evaluate", command_line(), bilm, file_facts([file]), numbers, seeds=seeds)
            write_results(output, results, overwrite=overwrite)
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
        device: training.Device = None,
        threads: training.Threads = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines on a terminal, too.")] = False,
    ) -> None:
        from rich.console import Console

        from elmokit.tasks.runs.task_model import TaskModel
        from elmokit.text.batch import windows

        set_threads(threads)
        loaded = TaskModel.from_pretrained(run, model=model, task=name, device=device)
        at_once = 1 if file == "-" and sys.stdin.isatty() else loaded.settings.batch_size
        console = Console() if sys.stdout.isatty() and not as_json else None
        for examples in windows(_parsed(loaded.task, file), lambda _: 1, at_once):
            for pair in zip(examples, loaded.predictions(examples, loaded.live_layers()), strict=True):
                if console is not None:
                    console.print(loaded.task.show(*pair))
                else:
                    typer.echo(json.dumps(loaded.task.to_json(*pair), ensure_ascii=False))

    @verbs.command(
        short_help="Print the sentences of labeled data.",
        help=f"Print the sentences of labeled data, each once: elmo task {name} text train.txt > sentences.txt\n\n"
        "Tokens are separated by spaces, for `elmo finetune`, which adapts a biLM to the text of the task.",
    )
    def text(
        files: Annotated[
            list[Path], typer.Argument(metavar="FILE...", help="Data in the format of the training data.")
        ],
    ) -> None:
        from elmokit.tasks.runs.task_model import distinct_sentences

        chosen = get_task(name)
        with warnings():
            examples = [example for file in files for example in chosen.read(file)]
        for sentence in distinct_sentences(chosen, examples):
            typer.echo(sentence)

    return verbs


def _parsed(task: Task[Any, Any], file: str) -> Iterator[Any]:
    """The examples of a text, line by line; errors name the line."""
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

    def train(
        output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the run.")],
        train: TrainFiles = None,
        dev: DevFile = None,
        test: TestFile = None,
        resume: training.Resume = False,
        overwrite: training.Overwrite = False,
        cache_dir: CacheFolder = None,
        cache_limit: CacheLimit = 20,
        device: training.Device = None,
        threads: training.Threads = None,
        quiet: Quiet = False,
        **values: Any,
    ) -> None:
        set_threads(threads)
        make_run(
            chosen,
            given_settings(values),
            data_files(train, dev, test),
            training.expanded(output),
            resume=resume,
            overwrite=overwrite,
            device=device,
            cache=layer_cache(cache_dir, cache_limit),
            quiet=quiet,
        )

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(
        name="train",
        short_help="Train a model.",
        help=f"""Train a model for the task, for example:

        \b
        elmo task {name} train --train train.txt --dev dev.txt --test test.txt -o runs/{name}
        elmo task {name} train ... --no-elmo --vectors glove.txt -o runs/{name}-baseline

        The layers of the biLM are computed once and kept in a cache. After a crash the same command with --resume ends
        with the same weights. Defaults are in brackets.
        """,
    )(with_task_settings(train, chosen.settings, after="test"))
    return get_command(app)
