"""`elmo pretrain` as a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from elmokit.disk.lock import locked
from elmokit.errors import ConfigError
from elmokit.pretrain.distributed import process_group
from elmokit.pretrain.loop import TrainingStep
from elmokit.pretrain.presets import get_preset
from elmokit.pretrain.pretrain_run import HeldoutEvaluation, new_state, open_run
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.pretrain.training_state import TrainingState


def pretrain(
    train: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    heldout: str | os.PathLike[str] | None = None,
    preset: str = "base",
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    watch: Callable[[TrainingStep | HeldoutEvaluation], None] = lambda event: None,
    **settings: Any,
) -> Path:
    """Train a biLM on text files; the folder `output` is then a model that `Elmo.from_pretrained` loads.

    >>> folder = elmokit.pretrain("corpus.txt", "run", heldout="dev.txt", preset="tiny", steps=300)
    >>> elmo = elmokit.load(folder)

    train: files, also compressed, or patterns; one sentence per line. heldout: text whose perplexity decides which
    weights are the best. preset: shape and settings. resume: continue from the last checkpoint in the folder, or start
    if there is none. watch: called with every step and with every evaluation of the held-out text.
    settings: any field of `TrainingSettings`, as tokenizer="words", minutes=30, learning_rate=2e-3.
    """
    folder = Path(output).expanduser()
    paths = [train] if isinstance(train, (str, os.PathLike)) else list(train)
    names = {item.name for item in fields(TrainingSettings)} - {"train", "heldout", "preset", "options"}
    if unknown := sorted(settings.keys() - names):
        raise ConfigError(f"settings: expected {', '.join(sorted(names))}, found {', '.join(unknown)}")
    given = settings | {
        "train": tuple(_absolute(path) for path in paths),
        "heldout": None if heldout is None else _absolute(heldout),
    }

    def begin() -> TrainingState:
        chosen = get_preset(preset)
        state = new_state(chosen.config, chosen.settings.changed(**given), lambda share: None)
        state.notes["command"] = "elmokit.pretrain"
        return state

    with process_group(device) as processes, locked(folder):
        run = open_run(folder, processes, begin, resume=resume, overwrite=overwrite, given=given)
        for event in run.go():
            watch(event)
    return folder


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(os.path.expanduser(path)).absolute())
