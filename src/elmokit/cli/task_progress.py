"""Progress display of task training."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

import typer

from elmokit.cli.progress import clock
from elmokit.cli.training import signals

if TYPE_CHECKING:
    from elmokit.tasks.runs.fit import Epoch, FitStep
    from elmokit.tasks.runs.task_run import TaskRun

_SECONDS = 0.2  # between two changes of the line on a terminal


def follow(run: TaskRun, *, quiet: bool, again: str = "--resume") -> None:
    """Execute a run and show its progress. SIGTERM and Ctrl-C end it with a checkpoint after the current step."""
    from elmokit.errors import Terminated

    for fault in run.faults:
        typer.echo(f"elmo: warning: {fault}; continuing from the previous checkpoint", err=True)
    was_complete = run.results is not None
    show = _Display(run, quiet=quiet)
    with signals() as caught:
        for event in run.go(lambda: bool(caught)):
            show(event)
    results = run.results
    if results is None:
        kind = KeyboardInterrupt if signal.SIGINT in caught else Terminated
        raise kind(f"stopped in epoch {run.state.epoch + 1}; continue with {again}")
    if not quiet:
        metric = results["metric"]
        test = f", test {metric} {results['test'][metric]:.2f}" if results["test"] else ""
        typer.echo(
            f"{run.folder}: {'was complete already: ' if was_complete else ''}dev {metric} "
            f"{results['dev'][metric]:.2f} in epoch {results['best_epoch']}{test}, {clock(results['seconds'])}",
            err=True,
        )


class _Display:
    """One line per epoch; on a terminal also one that changes with the steps."""

    def __init__(self, run: TaskRun, *, quiet: bool) -> None:
        self._metric, self._quiet, self._shown = run.model.task.metric, quiet, 0.0
        self._is_terminal = sys.stderr.isatty()
        if not quiet:
            n = sum(p.numel() for p in run.model.network.parameters() if p.requires_grad)
            sizes = f"{len(run.train):,} examples to train on, {len(run.dev):,} for dev, {len(run.test):,} for test"
            typer.echo(f"{run.folder}: {n / 1e6:.2f} M parameters, {sizes}", err=True)

    def __call__(self, event: FitStep | Epoch) -> None:
        from elmokit.tasks.runs.fit import Epoch

        if self._quiet:
            return
        if isinstance(event, Epoch):
            self._clear()
            others = ", ".join(f"{name} {event.scores[name]:.2f}" for name in event.scores if name != self._metric)
            typer.echo(
                f"epoch {event.epoch}: loss {event.loss:.4f}, dev {self._metric} {event.scores[self._metric]:.2f}"
                f"{', the best' if event.is_best else ''}{f' ({others})' if others else ''}, {clock(event.seconds)}",
                err=True,
            )
        elif self._is_terminal and time.monotonic() - self._shown >= _SECONDS:
            self._shown = time.monotonic()
            self._clear()
            typer.echo(f"epoch {event.epoch:.2f}  step {event.step:,}  loss {event.loss:.4f}", err=True, nl=False)

    def _clear(self) -> None:
        if self._is_terminal:
            typer.echo("\r\x1b[2K", err=True, nl=False)
