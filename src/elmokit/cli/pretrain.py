"""`elmo pretrain`: a biLM from text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elmokit.cli import training

if TYPE_CHECKING:
    from elmokit.pretrain.state import TrainingState


@training.with_flags
def pretrain(
    output: training.Output,
    preset: Annotated[
        Literal["tiny", "base", "small", "medium", "original"] | None,
        typer.Option(help="Shape and settings: tiny takes seconds; the last three are as published. Default: base."),
    ] = None,
    options: Annotated[
        str | None, typer.Option(metavar="FILE", help="Another shape: an options.json, as published.")
    ] = None,
    *,
    resume: training.Resume = False,
    overwrite: training.Overwrite = False,
    device: training.Device = None,
    threads: training.Threads = None,
    quiet: training.Quiet = False,
    **given: Any,
) -> None:
    """Train a biLM, for example: elmo pretrain --train 'corpus/*.txt.xz' --heldout dev.txt -o run/

    The folder is a model that every other command can load: the best weights so far, with a card. What is not said
    comes from the preset. After a crash the same command with --resume ends with the same weights.

    \b
    elmo pretrain --train book.txt --heldout dev.txt -o try/ --preset tiny --tokenize
    elmo pretrain -o run/ --resume
    torchrun --nproc-per-node 8 -m elmokit pretrain --train 'corpus/*.xz' --heldout dev.txt -o run/ --resume
    """
    from elmokit.pretrain.run import open_run

    given |= {"preset": preset, "options": training.absolute(options)}
    folder = training.expanded(output)
    with training.session(folder, device, threads) as processes:
        run = open_run(
            folder, processes, lambda: _begin(given, quiet=quiet), resume=resume, overwrite=overwrite, given=given
        )
        training.follow(run, quiet=quiet)


def _begin(given: dict[str, Any], *, quiet: bool) -> TrainingState:
    from pathlib import Path

    from elmokit.config import ModelConfig
    from elmokit.pretrain.presets import get_preset
    from elmokit.pretrain.run import new_state

    preset = get_preset(given["preset"] or "base")
    settings = preset.settings.changed(**given)
    config = preset.config
    if settings.options is not None:
        config = ModelConfig.from_json(Path(settings.options).read_bytes())
    with training.counting(quiet=quiet) as progress:
        state = new_state(config, settings, progress)
    state.notes["command"] = training.command_line()
    return state
