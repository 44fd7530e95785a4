"""Throughput and remaining time, as soon as they can be estimated."""

from __future__ import annotations

import time
from datetime import timedelta

SMOOTH = 0.1  # pauses below this share of the time so far hardly change an average


class Pace:
    """Rates of work whose results arrive in bursts, as those of a batch do.

    The first sentence of a batch arrives after the time of the whole batch: tokens over seconds are far too low then,
    and rise with every sentence. While pauses are that long, only complete bursts are measured.
    """

    def __init__(self, now: float | None = None) -> None:
        """Start the clock, which is `time.monotonic`, at `now`."""
        self.restart(now)

    def restart(self, now: float | None = None, units: float = 0, done: float = 0) -> None:
        """Restart the measurement, because work done by an earlier run says nothing about the speed."""
        self._start = self._latest = self._burst = time.monotonic() if now is None else now
        self._first_units, self._first_done = self._units, self._done = units, done
        self._pause = 0.0  # the last long one
        self._complete: tuple[float, float, float] | None = None  # end, units and share of the complete bursts

    def step(self, units: float, done: float = 0, now: float | None = None) -> None:
        """Record progress. units: total number completed, such as tokens; done: completed share of the whole."""
        now = time.monotonic() if now is None else now
        pause = now - self._latest
        if pause >= SMOOTH * (now - self._start):
            if self._burst > self._start:
                self._complete = (self._burst, self._units, self._done)
            self._burst, self._pause = now, pause
        self._latest, self._units, self._done = now, units, done

    @property
    def rate(self) -> float | None:
        """Units per second; None as long as it would be a guess."""
        seconds, units, _ = self._measured()
        return units / seconds if seconds > 0 and units > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Until the share is 1; None as long as it would be a guess."""
        seconds, _, done = self._measured()
        return max(0.0, (1 - self._done) * seconds / done) if seconds > 0 and done > 0 else None

    def _measured(self) -> tuple[float, float, float]:
        """Seconds, and the units and share of the whole that were done in them."""
        end, units, done = self._latest, self._units, self._done
        if self._pause >= SMOOTH * (end - self._start):
            if self._complete is None:
                return 0.0, 0.0, 0.0
            end, units, done = self._complete
        return end - self._start, units - self._first_units, done - self._first_done


def clock(seconds: float) -> str:
    """A time as 1:02:03."""
    return str(timedelta(seconds=round(min(seconds, 1e8))))
