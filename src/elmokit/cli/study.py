"""Common parts of `elmo ablate` and `elmo sample-efficiency`: one command per task, many runs, one table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from elmokit.cli.task_options import layer_cache, make_run, set_threads, with_task_settings
from elmokit.tasks.shared.task_registry import ABOUT, TASKS

if TYPE_CHECKING:
    from elmokit.analysis.shared.results import Results
    from elmokit.analysis.studies.study import Outcome, Study
    from elmokit.tasks.shared.task_base import Task

Folder = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="FOLDER", help="Folder of the runs, one subfolder each, and of results.json."
    ),
]
Seeds = Annotated[str, typer.Option(metavar="N,N", help="Random seeds; every variant is trained once with each.")]


def study_group(task_command: Callable[[str], Any]) -> type[TyperGroup]:
    """Group with one command per task, created on demand: its flags need the task's settings, and torch with them."""

    class StudyGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(TASKS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return task_command(cmd_name) if cmd_name in TASKS else None

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Tasks"):  # for which no command need be made
                formatter.write_dl(list(ABOUT.items()))

    return StudyGroup


def study_command(
    function: Callable[..., None], task: Task[Any, Any], *, after: str, varied: Collection[str], help: str
) -> Any:
    """A function as the command of a task, with flags for its settings, but for those that the study varies."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name=task.name, help=help)(with_task_settings(function, task.settings, after=after, exclude=varied))
    return get_command(app)


def make_study(
    study: Study,
    summarize: Callable[[Mapping[str, list[Outcome]]], Results],
    *,
    device: str | None,
    cache_dir: Path | None,
    cache_limit: float,
    threads: int | None,
    quiet: bool,
) -> Results:
    """Train the runs that are not complete, and write the results of all."""
    from elmokit.analysis.shared.results import write_results
    from elmokit.analysis.studies.study import RESULTS
    from elmokit.disk.lock import locked
    from elmokit.tasks.runs.task_run import remove_remains

    set_threads(threads)
    cache = layer_cache(cache_dir, cache_limit)
    with locked(study.folder):
        study.check()
        complete = [run for run in study.runs if run.is_complete]
        if complete and not quiet:
            typer.echo(f"{study.folder}: {len(complete)} of {len(study.runs)} runs are complete already", err=True)
        for number, run in enumerate(study.runs, start=1):
            if run.is_complete:
                remove_remains(run.folder)
                continue
            if not quiet:
                typer.echo(f"run {number} of {len(study.runs)}: {run.folder.name}", err=True)
            make_run(
                study.task,
                run.given,
                study.data,
                run.folder,
                resume=True,
                device=device,
                cache=cache,
                adapt=run.variant.adapts,
                quiet=quiet,
                again="the same command",
            )
        results = summarize(study.outcomes())
        write_results(study.folder / RESULTS, results, overwrite=True)  # those of fewer runs
    return results


def numbers_of(text: str, flag: str, kind: type[int] | type[float], expected: str, holds: Callable[[Any], bool]) -> Any:
    """The numbers of a list like 0,1,2, in order, each once."""
    from elmokit.errors import ConfigError

    try:
        found = sorted({kind(part) for part in text.split(",")})
        if all(map(holds, found)):
            return found
    except ValueError:
        pass
    raise ConfigError(f"{flag}: expected {expected}, found {text!r}")


def seeds_of(text: str) -> list[int]:
    """The seeds that `--seeds` names."""
    seeds: list[int] = numbers_of(text, "--seeds", int, "integers from 0, such as 0,1,2", lambda seed: seed >= 0)
    return seeds
