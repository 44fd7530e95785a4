"""`elmo pretrain`: a biLM from text."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elmokit.cli import training
from elmokit.cli.options import Quiet
from elmokit.cli.setting_flags import shown, with_settings
from elmokit.pretrain.presets import PRESETS
from elmokit.pretrain.training_settings import TrainingSettings

if TYPE_CHECKING:
    from elmokit.pretrain.training_state import TrainingState


def _pretrain(
    output: training.Output,
    preset: Annotated[
        Literal["tiny", "light", "base", "small", "medium", "original"] | None,
        typer.Option(help="Shape and settings: tiny takes seconds; the last three are as published [base]."),
    ] = None,
    options: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Model shape: an options.json, as published [that of the preset]."),
    ] = None,
    branch: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Start from the last checkpoint of another run, which is not changed."),
    ] = None,
    grow: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Widen a trained model: start with its layers, its vocabulary and its perplexity.",
        ),
    ] = None,
    decay_now: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="End a run: from its last checkpoint on, the learning rate decays to zero over this fraction of the "
            "whole run, such as 0.2. Requires --resume or --branch.",
        ),
    ] = None,
    tokenize: training.Tokenize = False,
    *,
    resume: training.Resume = False,
    overwrite: training.Overwrite = False,
    device: training.Device = None,
    threads: training.Threads = None,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Train a biLM, for example: elmo pretrain --train 'corpus/*.txt.xz' --heldout dev.txt -o run/

    The folder is a model that every other command can load: the best weights so far, with a card. Other settings
    come from the preset. After a crash the same command with --resume ends with the same weights.

    \b
    elmo pretrain --train book.txt --heldout dev.txt -o try/ --preset tiny --tokenize
    elmo pretrain -o run/ --resume
    elmo pretrain -o run/ --resume --decay-now 0.2
    elmo pretrain -o trial/ --branch run/ --decay-now 0.1
    elmo pretrain --train 'corpus/*.xz' --heldout dev.txt -o wider/ --grow run/ --preset base
    torchrun --nproc-per-node 8 -m elmokit pretrain --train 'corpus/*.xz' --heldout dev.txt -o run/ --resume
    """
    from elmokit.errors import ConfigError
    from elmokit.pretrain.pretrain_run import branch as branch_of
    from elmokit.pretrain.pretrain_run import open_run

    if decay_now is not None and not resume and branch is None:
        raise ConfigError("--decay-now: expected --resume or --branch RUN beside it, found neither")
    if grow is not None and (branch is not None or given.get("vocabulary") is not None):
        raise ConfigError(
            "--grow: expected neither --branch nor --vocabulary beside it, found one of them; leave it out"
        )
    given = training.given_settings(given, tokenize=tokenize) | {
        "preset": preset,
        "options": training.absolute(options),
    }
    folder = training.expanded(output)
    with training.session(folder, device, threads) as processes:

        def begin() -> TrainingState:
            if branch is None:
                return _begin(given, grow, quiet=quiet)
            return branch_of(training.expanded(branch), given, decay_now=decay_now)

        run = open_run(folder, processes, begin, resume=resume, overwrite=overwrite, given=given, decay_now=decay_now)
        training.follow(run, quiet=quiet)


def _begin(given: dict[str, Any], grow: str | None, *, quiet: bool) -> TrainingState:
    from elmokit.config import ModelConfig
    from elmokit.disk.json_file import read_bytes
    from elmokit.pretrain.presets import get_preset
    from elmokit.pretrain.pretrain_run import grown_state, new_state

    preset = get_preset(given["preset"] or "base")
    settings = preset.settings.changed(**given)
    config = preset.config
    if settings.options is not None:
        config = ModelConfig.from_json(read_bytes(Path(settings.options)))
    if grow is not None:
        state = grown_state(grow, config, settings)
    else:
        with training.counting(quiet=quiet) as progress:
            state = new_state(config, settings, progress)
    state.notes["command"] = training.command_line()
    return state


def _defaults() -> dict[str, str]:
    """The default of every setting, as `--help` shows it: that of the preset `base`, named where others differ."""
    found = {}
    for item in fields(TrainingSettings):
        base = shown(getattr(PRESETS["base"].settings, item.name))
        differs = len({getattr(preset.settings, item.name) for preset in PRESETS.values()}) > 1
        found[item.name] = f"{base or 'none'} in preset base" if differs else base
    return found


pretrain = with_settings(_pretrain, TrainingSettings, after="options", exclude=training.NO_FLAGS, defaults=_defaults())
