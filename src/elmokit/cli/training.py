"""Common parts of `elmo pretrain` and `elmo finetune`: options and progress display."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmokit.cli.progress import clock

if TYPE_CHECKING:
    from elmokit.pretrain.distributed import Processes
    from elmokit.pretrain.loop import TrainingStep
    from elmokit.pretrain.pretrain_run import HeldoutEvaluation, PretrainRun

Output = Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the run and the model.")]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="Device: cpu, cuda, cuda:1 or mps [a GPU if available].")
]
Threads = Annotated[int | None, typer.Option(metavar="N", min=1, max=4096, help="CPU threads [all cores].")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint, or start if there is none.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")]

Tokenize = Annotated[bool, typer.Option("--tokenize", help="Tokenize raw text; the same as --tokenizer words.")]

NO_FLAGS = ("preset", "options", "frozen")  # settings that the commands decide, or have flags of their own for


def given_settings(values: Mapping[str, Any], *, tokenize: bool) -> dict[str, Any]:
    """The settings that were given as flags, None where they were not, with absolute paths."""
    given = dict(values)
    given["tokenizer"] = given["tokenizer"] or ("words" if tokenize else None)
    given["train"] = tuple(str(absolute(path)) for path in given["train"] or ()) or None
    return given | {name: absolute(given[name]) for name in ("heldout", "vocabulary")}


_LINE_SECONDS, _BAR_SECONDS = 10.0, 0.2
_FEW_STEPS = 300  # in fewer, random weights hardly learn how often words occur
_STEPS_TO_ESTIMATE = 10  # after which the duration of a run can be estimated
_PASSING_ON = 5.0  # seconds in which a second signal may be a forwarded copy of the first


def absolute(path: str | None) -> str | None:
    """Absolute form of a path, because a run may be resumed from another folder."""
    return str(expanded(path).absolute()) if path is not None else None


def expanded(path: str | Path) -> Path:
    """Expand `~`; that of an unknown user is left unchanged, where pathlib raises."""
    return Path(os.path.expanduser(path))


def command_line() -> str:
    """The command as it was typed, but for the program's own path."""
    return shlex.join(["elmo", *sys.argv[1:]])


@contextmanager
def session(output: Path, device: str | None, threads: int | None) -> Iterator[Processes]:
    """Context manager for one process of a run, alone or started by `torchrun`; rank 0 locks the folder."""
    import torch

    from elmokit.disk.lock import locked
    from elmokit.pretrain.distributed import process_group
    from elmokit.training.memory import keep_freed_memory

    keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    with process_group(device) as processes, locked(output) if processes.is_first else nullcontext():
        yield processes
    if not processes.is_first:
        # The work is complete. A thread of torch that still waits for the interpreter would abort it while it shuts
        # down ("terminate called without an active exception"), and torchrun would then kill the first process.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)


def follow(run: PretrainRun, *, quiet: bool) -> None:
    """Execute a run and show its progress. SIGTERM and Ctrl-C end it with a checkpoint after the current step."""
    from elmokit.errors import Terminated

    first = run.processes.is_first
    for fault in run.faults:
        typer.echo(f"elmo: warning: {fault}; continuing from the previous checkpoint", err=True)
    if first and (n := run.state.notes.get("overlap")):
        typer.echo(
            f"elmo: warning: {run.state.settings.heldout}: {n:,} of its sentences are also in the training text; its "
            "perplexity will be too low",
            err=True,
        )
    if first and not quiet:
        typer.echo(_heading(run), err=True)
        if find_spec("tensorboard") is None:
            typer.echo("metrics.jsonl only; for TensorBoard as well: pip install 'elmokit[pretrain]'", err=True)
    began = run.state.step
    # whoever gives --steps knows their number
    short = first and began == 0 and run.state.settings.steps is None and "parent" not in run.state.notes
    with signals() as caught, _display(run, quiet=quiet or not first) as show:
        for event in run.go(lambda: bool(caught)):
            if short and (event.step >= _STEPS_TO_ESTIMATE or run.state.done >= 1):
                short = False
                _warn_of_few_steps(event.step / run.state.done)
            show(event)
    state = run.state
    if state.done < 1:
        if not first:
            raise typer.Exit(143)
        kind = KeyboardInterrupt if signal.SIGINT in caught else Terminated
        raise kind(f"stopped after step {state.step:,}; continue with --resume")
    if run.lost:
        typer.echo(f"elmo: warning: {run.lost}; the model has the best weights as they were exported", err=True)
    if first and not quiet:
        typer.echo(_summary(run, was_complete=state.step == began), err=True)


def _warn_of_few_steps(steps: float) -> None:
    if steps < _FEW_STEPS:
        typer.echo(
            f"elmo: warning: the run has about {steps:,.0f} steps, too few to learn from; give it more --minutes or "
            "--epochs, or smaller --batch-tokens",
            err=True,
        )


@contextmanager
def counting(what: str = "counting words", *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Context manager that yields a progress callback, called with the completed fraction."""
    shown = time.monotonic()
    is_terminal = sys.stderr.isatty()

    def show(done: float) -> None:
        nonlocal shown
        if not quiet and time.monotonic() - shown >= (_BAR_SECONDS if is_terminal else _LINE_SECONDS):
            shown = time.monotonic()
            _clear(is_terminal)
            typer.echo(f"{done:6.1%}  {what}", err=True, nl=not is_terminal)

    yield show
    _clear(is_terminal and not quiet)


@contextmanager
def signals() -> Iterator[list[int]]:
    """Context that collects SIGTERM and SIGINT; a second one has its usual effect.

    A forwarded copy of the first signal does not count: a terminal sends Ctrl-C to all processes of a job, and torchrun
    then forwards it to its processes once more.
    """
    caught: list[int] = []
    passed_on = {signal.SIGTERM, signal.SIGINT} if "TORCHELASTIC_RUN_ID" in os.environ else {signal.SIGTERM}
    first = 0.0
    usual = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if number not in caught:
            caught.append(number)
            first = time.monotonic()
        elif number not in passed_on or time.monotonic() - first > _PASSING_ON:
            signal.signal(number, usual[signal.Signals(number)])
            signal.raise_signal(number)

    for number in usual:
        signal.signal(number, note)
    try:
        yield caught
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@contextmanager
def _display(run: PretrainRun, *, quiet: bool) -> Iterator[Callable[[TrainingStep | HeldoutEvaluation], None]]:
    """Context manager that yields an event callback: it updates one line on a terminal, or prints one every 10 s."""
    if quiet:
        yield lambda _: None
        return
    from elmokit.pretrain.pretrain_run import HeldoutEvaluation

    started = shown = time.monotonic()
    before = run.state.done
    is_terminal = sys.stderr.isatty()

    def show(event: TrainingStep | HeldoutEvaluation) -> None:
        nonlocal shown
        now = time.monotonic()
        if isinstance(event, HeldoutEvaluation):
            _clear(is_terminal)
            typer.echo(_evaluation_lines(event), err=True)
        elif now - shown >= (_BAR_SECONDS if is_terminal else _LINE_SECONDS):
            shown = now
            _clear(is_terminal)
            left = (now - started) * (1 - event.done) / max(1e-9, event.done - before)
            typer.echo(_step_line(event, left), err=True, nl=not is_terminal)

    try:
        yield show
    finally:
        _clear(is_terminal)


def _clear(is_terminal: bool) -> None:
    if is_terminal:
        typer.echo("\r\x1b[2K", err=True, nl=False)


def _step_line(step: TrainingStep, left: float) -> str:
    return (
        f"{step.done:6.1%}  step {step.step:,}  epoch {step.epoch:.2f}  loss {step.loss:.3f}  "
        f"perplexity {step.perplexity:,.1f}  {step.tokens_per_second:,.0f} tokens/s  {clock(left)} left"
    )


def _evaluation_lines(evaluation: HeldoutEvaluation) -> str:
    figures = evaluation.perplexity
    best = ", the best" if evaluation.is_best else ""
    lines = [
        f"step {evaluation.step:,}: held-out perplexity {figures.mean:,.2f} (forward {figures.forward:,.2f}, backward "
        f"{figures.backward:,.2f}, {figures.out_of_vocabulary:.1%} unknown words){best}"
    ]
    return "\n".join([*lines, f"  {evaluation.sample}"] if evaluation.sample else lines)


def _heading(run: PretrainRun) -> str:
    state = run.state
    n = sum(p.numel() for p in state.bilm.parameters())
    place = f"from step {state.step:,}" if state.step else "from the start"
    return (
        f"{run.folder}: {n / 1e6:.1f} M parameters, {len(state.vocabulary):,} words to predict, "
        f"{len(run.corpus.files):,} file(s) of text, {place}"
    )


def _summary(run: PretrainRun, *, was_complete: bool) -> str:
    state = run.state
    if was_complete:
        return f"{run.folder}: was complete already, after step {state.step:,}"
    best = f"; held-out perplexity {state.best['mean']:,.2f} at step {state.best['step']:,}" if state.best else ""
    cut = f"; {state.position.long_sentences:,} long sentence(s) cut" if state.position.long_sentences else ""
    return f"{run.folder}: {state.step:,} steps, {state.tokens:,} tokens in {clock(state.seconds)}{best}{cut}"
