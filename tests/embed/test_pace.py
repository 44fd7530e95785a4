"""Rates that are shown only once they mean something."""

from __future__ import annotations

import pytest

from elmokit.embed.pace import Pace, clock


def test_nothing_is_said_of_the_first_burst() -> None:
    pace = Pace(now=100.0)
    for k in range(50):  # a batch of 1,000 tokens took 10 s, then its sentences come at once
        pace.step(20 * (k + 1), (k + 1) / 500, now=110.0 + k / 1000)
        assert pace.rate is None and pace.seconds_left is None


def test_complete_bursts_are_measured() -> None:
    pace, said = Pace(now=0.0), []
    for burst in range(1, 31):
        for k in range(50):
            tokens = 1000 * (burst - 1) + 20 * (k + 1)
            pace.step(tokens, tokens / 30_000, now=10.0 * burst + k / 1000)
            said.append((pace.rate, pace.seconds_left, (30_000 - tokens) / 100))
    known = [(rate, left, true) for rate, left, true in said if rate is not None and left is not None]
    assert len(known) == 29 * 50
    for rate, left, true in known:  # 100 tokens/s; the last batch may still wait to be handed on
        assert 85 <= rate <= 101
        assert left == pytest.approx(true, rel=0.15)


def test_a_steady_flow() -> None:
    pace = Pace(now=0.0)
    for k in range(1, 200):
        pace.step(10 * k, k / 200, now=k / 10)
    assert pace.rate == pytest.approx(100) and pace.seconds_left == pytest.approx(0.1)


def test_what_was_resumed_does_not_count() -> None:
    pace = Pace(now=0.0)
    pace.restart(now=5.0, units=1000, done=0.5)
    for k in range(1, 101):
        pace.step(1000 + k, 0.5 + k / 400, now=5 + k / 10)
    assert pace.rate == pytest.approx(10) and pace.seconds_left == pytest.approx(10)


def test_clock() -> None:
    assert clock(3723.4) == "1:02:03"
