"""Defaults that make enough updates on small data."""

from __future__ import annotations

import math

import pytest

from elmokit.tasks.ner import NerSettings
from elmokit.tasks.runs.small_data import ENOUGH_UPDATES, MOST_EPOCHS, SMALLEST_BATCH, scaled


def updates(settings: NerSettings, n: int) -> int:
    return settings.epochs * math.ceil(n / settings.batch_size)


def test_enough_data_changes_nothing() -> None:
    assert scaled(NerSettings(), {}, 14_000) == NerSettings()


@pytest.mark.parametrize("n", [1, 30, 100, 300, 1_000, 1_447, 3_000])
def test_small_data_gets_enough_updates(n: int) -> None:
    settings = scaled(NerSettings(), {}, n)
    assert updates(settings, n) >= ENOUGH_UPDATES or (settings.epochs, settings.batch_size) == (
        MOST_EPOCHS,
        SMALLEST_BATCH,
    )
    assert SMALLEST_BATCH <= settings.batch_size <= NerSettings().batch_size
    assert settings.patience / settings.epochs == pytest.approx(NerSettings().patience / NerSettings().epochs, rel=0.1)


def test_what_was_given_stays() -> None:
    few = scaled(NerSettings(epochs=4), {"epochs": 4}, 1_447)
    assert few.epochs == 4 and few.batch_size == 5 and updates(few, 1_447) >= ENOUGH_UPDATES
    given = {"epochs": 2, "batch_size": 50, "patience": 1}
    assert scaled(NerSettings(**given), given, 10) == NerSettings(**given)
