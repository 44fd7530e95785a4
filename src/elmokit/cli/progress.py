"""How far a long command has come: a bar on a terminal, else a line every ten seconds; always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from elmokit.embed.run import Progress

_LINE_SECONDS = 10.0
_BAR_SECONDS = 0.1


@contextmanager
def watch(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A function to call at every step; it shows something now and then."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar() as show:
            yield _now_and_then(show, _BAR_SECONDS)
    else:
        yield _now_and_then(lambda done, speed: typer.echo(_line(done, speed), err=True), _LINE_SECONDS)


def _now_and_then(show: Callable[[Progress, float], None], seconds: float) -> Callable[[Progress], None]:
    """Call `show` with the progress and the tokens per second so far, at most once in so many seconds."""
    started = shown = time.monotonic()

    def step(done: Progress) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= seconds:
            shown = now
            show(done, (done.tokens - done.resumed_tokens) / (now - started))

    return step


def _line(done: Progress, speed: float) -> str:
    part = f"{done.bytes_read / done.bytes_total:.0%}, " if done.bytes_total else ""
    return f"{part}{done.sentences:,} sentences, {speed:,.0f} tokens/s"


@contextmanager
def _bar() -> Iterator[Callable[[Progress, float], None]]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.BarColumn(), progress.TaskProgressColumn(), progress.TextColumn("{task.description}"),
        progress.TimeRemainingColumn(),
    )  # fmt: skip
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: Progress, speed: float) -> None:
            words = f"{done.sentences:,} sentences, {speed:,.0f} tokens/s"
            bar.update(task, total=done.bytes_total, completed=done.bytes_read, description=words)

        yield show
