"""Defaults for small data: as many updates as a network needs to learn anything."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from elmokit.tasks.shared.task_settings import FitSettings

ENOUGH_UPDATES = 1_000  # a tagger with default settings has F1 0 for the first few hundred
SMALLEST_BATCH = 4
MOST_EPOCHS = 200
ADAPTED = ("batch_size", "epochs", "patience")

Settings = TypeVar("Settings", bound=FitSettings)


def scaled(settings: Settings, given: Collection[str], n_examples: int) -> Settings:
    """Reduce the batch size and increase the epochs if `n_examples` would give fewer than ENOUGH_UPDATES updates.

    Settings in `given` do not change. Patience grows with the epochs.
    """
    batch_size, epochs, patience = settings.batch_size, settings.epochs, settings.patience
    if "batch_size" not in given:
        most = max(SMALLEST_BATCH, n_examples * epochs // ENOUGH_UPDATES)
        batch_size = min(batch_size, most)
    per_epoch = math.ceil(n_examples / batch_size)
    if "epochs" not in given and per_epoch * epochs < ENOUGH_UPDATES:
        epochs = max(epochs, min(MOST_EPOCHS, math.ceil(ENOUGH_UPDATES / max(1, per_epoch))))
        if "patience" not in given:
            patience = patience * epochs // settings.epochs
    return replace(settings, batch_size=batch_size, epochs=epochs, patience=patience)
