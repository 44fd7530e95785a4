"""As much of the folders of task runs as those who read them need, with figures made up by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE = {"path": "/data/train.txt", "sha256": "0"}


def write_run(
    folder: Path,
    *,
    task: str = "ner",
    metric: str = "f1",
    dev: float = 50.0,
    test: float | None = 40.0,
    weights: Sequence[float] | None = None,
    place: str = "input",
    fingerprint: str = "f" * 64,
    curve: Sequence[float] = (),
    command: str = "elmo task ner train",
    **settings: Any,
) -> Path:
    """A complete run; with `weights` it is one with ELMo. curve: the dev scores of its epochs, of ten updates each."""
    folder.mkdir(parents=True)
    elmo = weights is not None
    record = {
        "task": task,
        "command": command,
        "vectors": None,
        "examples": {"train": 20, "dev": 8, "test": 8},
        "settings": {
            "elmo": elmo,
            "elmo_at": place,
            "mix": "all",
            "seed": 0,
            "model": None,
            "vectors": None,
            "train_fraction": 1.0,
            **settings,
        },
        "data": {"train": [FILE], "dev": FILE, "test": FILE if test is not None else None},
        "model": {"path": "/models/small", "fingerprint": fingerprint, "state": "reset"} if elmo else None,
    }
    results = {
        "metric": metric,
        "dev": {metric: dev},
        "test": None if test is None else {metric: test},
        "best_epoch": 1 + list(curve).index(dev) if curve else 1,
        "seconds_to_best": 1.0,
        "mix": {place: {"weights": list(weights), "gamma": 1.5}} if weights is not None else {},
    }
    (folder / "settings.json").write_text(json.dumps(record))
    (folder / "results.json").write_text(json.dumps(results))
    lines: list[dict[str, Any]] = [{"kind": "step", "step": 1, "loss": 2.0}]
    lines += [{"kind": "epoch", "epoch": k, "step": 10 * k, metric: score} for k, score in enumerate(curve, start=1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
