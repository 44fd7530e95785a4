"""Progress of a long command: a bar on a terminal, else a line every ten seconds; always on standard error."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from elmokit.embed.pace import Pace
from elmokit.embed.pace import clock as clock

if TYPE_CHECKING:
    from elmokit.embed.embed_files import Progress

_LINE_SECONDS = 10.0
_BAR_SECONDS = 0.1


@contextmanager
def watch(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Context manager that yields a progress callback, which updates the display at intervals."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar() as show:
            yield _now_and_then(show, _BAR_SECONDS)
    else:
        yield _now_and_then(lambda *state: typer.echo(_line(*state), err=True), _LINE_SECONDS)


@contextmanager
def warnings() -> Iterator[None]:
    """Show what the package logs as lines on standard error."""

    class Echo(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            typer.echo(f"elmo: warning: {record.getMessage()}", err=True)

    log, handler = logging.getLogger("elmokit"), Echo(logging.WARNING)
    if any(type(other).__qualname__ == Echo.__qualname__ for other in log.handlers):  # shown already
        yield
        return
    log.addHandler(handler)
    propagate, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


def _now_and_then(show: Callable[[Progress, Pace], None], seconds: float) -> Callable[[Progress], None]:
    """Call `show` with the progress and its pace, at most once in so many seconds."""
    pace, shown = Pace(), time.monotonic()

    def step(done: Progress) -> None:
        nonlocal shown
        share = done.bytes_read / done.bytes_total if done.bytes_total else 0.0
        if done.tokens == done.resumed_tokens:  # what is taken over from an earlier run says nothing of the speed
            pace.restart(units=done.tokens, done=share)
        else:
            pace.step(done.tokens, share)
        if time.monotonic() - shown >= seconds:
            shown = time.monotonic()
            show(done, pace)

    return step


def _line(done: Progress, pace: Pace) -> str:
    parts = [f"{done.sentences:,} sentences", *_speed(pace)]
    if done.bytes_total:
        parts.insert(0, f"{done.bytes_read / done.bytes_total:.0%}")
    return ", ".join(parts)


def _speed(pace: Pace) -> list[str]:
    """The rate and the time left, as far as they are known."""
    rate, left = pace.rate, pace.seconds_left
    return ([f"{rate:,.0f} tokens/s"] if rate else []) + ([f"{clock(left)} left"] if left is not None else [])


@contextmanager
def _bar() -> Iterator[Callable[[Progress, Pace], None]]:
    from rich import progress
    from rich.console import Console

    columns = (progress.BarColumn(), progress.TaskProgressColumn(), progress.TextColumn("{task.description}"))
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: Progress, pace: Pace) -> None:
            words = ", ".join([f"{done.sentences:,} sentences", *_speed(pace)])
            bar.update(task, total=done.bytes_total, completed=done.bytes_read, description=words)

        yield show
