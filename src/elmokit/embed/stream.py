"""Results of `Elmo.embed`: a stream of sentences, and its progress line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn, Self

from elmokit.embed.pace import Pace, clock
from elmokit.embed.sentence import EmbeddedSentence

FIRST_SECONDS = 2.0  # shorter work needs no progress line
SCREEN_SECONDS, PIPE_SECONDS = 0.2, 10.0  # between two lines on a screen, and in a file or pipe

_ONCE = "elmo.embed(...) computes sentences while you iterate over it, once"
_LIST = "write sentences = list(elmo.embed(...)) to keep them all"
_MATRIX = "use elmo.encode(texts) for one vector per text as a matrix"


class SentenceStream(Iterator[EmbeddedSentence]):
    """An iterator over embedded sentences, in their order and in bounded memory.

    It can be iterated over once. `list(stream)` keeps all sentences; indexing the stream itself is an error that says
    so.
    """

    def __init__(self, sentences: Iterator[EmbeddedSentence]) -> None:
        self._sentences = sentences

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> EmbeddedSentence:
        return next(self._sentences)

    def __repr__(self) -> str:
        return f"<sentences to come: iterate over them; {_LIST}>"

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError(f"{_ONCE}; {_LIST} and index them, or {_MATRIX}")

    def __len__(self) -> int:
        raise TypeError(f"{_ONCE}, and does not know their number; {_LIST}")

    def __getattr__(self, name: str) -> Any:
        if name in ("tokens", "vectors", "layers", "vector", "shape", "offsets"):
            raise AttributeError(f"{name} belongs to one sentence: for sentence in elmo.embed(...): sentence.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __array__(self, *args: object, **options: object) -> NoReturn:
        raise TypeError(f"{_ONCE}; sentences differ in length: {_MATRIX}")


class ProgressLine:
    """Progress on standard error: a line that is rewritten on a screen, and one line now and then elsewhere."""

    def __init__(self, total: int | None, *, screen: bool) -> None:
        """total: number of sentences, if it is known."""
        self._total, self._screen = total, screen
        self._pace = Pace()
        self._sentences = self._tokens = self._width = 0
        self._shown = time.monotonic() + (FIRST_SECONDS - SCREEN_SECONDS if screen else 0)

    def add(self, sentences: int, tokens: int) -> None:
        """Count a batch that was computed."""
        self._sentences, self._tokens = self._sentences + sentences, self._tokens + tokens
        self._pace.step(self._tokens, self._sentences / self._total if self._total else 0)
        if time.monotonic() - self._shown >= (SCREEN_SECONDS if self._screen else PIPE_SECONDS):
            self._shown = time.monotonic()
            line = progress_line(self._pace, self._sentences, self._total)
            end = " " * (self._width - len(line)) if self._screen else "\n"
            print(f"\r{line}" if self._screen else line, end=end, file=sys.stderr, flush=True)
            self._width = len(line)

    def clear(self) -> None:
        """Remove the line from the screen."""
        if self._width and self._screen:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)


def choose_progress(total: int | None, progress: bool | None) -> ProgressLine | None:
    """Progress line of a run; None for none.

    progress: None shows it on a terminal and in a notebook, for work that takes more than two seconds.
    """
    screen = _has_screen()
    if progress is False or (progress is None and not screen):
        return None
    return ProgressLine(total, screen=screen)


def progress_line(pace: Pace, number: int, total: int | None) -> str:
    """Progress line: completed share and, if known, speed and time left."""
    parts = [f"{number / total:4.0%}  {number:,} of {total:,} sentences" if total else f"{number:,} sentences"]
    if (rate := pace.rate) is not None:
        parts.append(f"{rate:,.0f} tokens/s")
    if total and (left := pace.seconds_left) is not None:
        parts.append(f"{clock(left)} left")
    return ", ".join(parts)


def _has_screen() -> bool:
    """Whether standard error is a terminal or the output of a notebook."""
    notebook = "ipykernel" in sys.modules and type(sys.stderr).__module__.startswith("ipykernel")
    return notebook or (sys.stderr is not None and sys.stderr.isatty())
