"""How far a long command has come: a bar on a terminal, else a line every ten seconds; always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
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
        yield _now_and_then(lambda *state: typer.echo(_line(*state), err=True), _LINE_SECONDS)


def clock(seconds: float) -> str:
    """A time as 1:02:03."""
    return str(timedelta(seconds=round(min(seconds, 1e8))))


def _now_and_then(show: Callable[[Progress, float, float], None], seconds: float) -> Callable[[Progress], None]:
    """Call `show` with the progress, tokens per second and bytes per second, at most once in so many seconds."""
    started = shown = time.monotonic()
    resumed = 0  # bytes

    def step(done: Progress) -> None:
        nonlocal started, shown, resumed
        now = time.monotonic()
        if done.tokens == done.resumed_tokens:  # what is taken over from an earlier run says nothing of the speed
            started, resumed = now, done.bytes_read
        if now - shown >= seconds:
            shown, taken = now, max(now - started, 1e-3)
            show(done, (done.tokens - done.resumed_tokens) / taken, (done.bytes_read - resumed) / taken)

    return step


def _line(done: Progress, tokens_per_second: float, bytes_per_second: float) -> str:
    parts = [f"{done.sentences:,} sentences", f"{tokens_per_second:,.0f} tokens/s"]
    if done.bytes_total:
        parts.insert(0, f"{done.bytes_read / done.bytes_total:.0%}")
        if bytes_per_second:
            parts.append(f"{clock((done.bytes_total - done.bytes_read) / bytes_per_second)} left")
    return ", ".join(parts)


@contextmanager
def _bar() -> Iterator[Callable[[Progress, float, float], None]]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.BarColumn(), progress.TaskProgressColumn(), progress.TextColumn("{task.description}"),
        progress.TimeRemainingColumn(),
    )  # fmt: skip
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: Progress, tokens_per_second: float, bytes_per_second: float) -> None:
            words = f"{done.sentences:,} sentences, {tokens_per_second:,.0f} tokens/s"
            bar.update(task, total=done.bytes_total, completed=done.bytes_read, description=words)

        yield show
