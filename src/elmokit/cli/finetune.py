"""`elmo finetune`: continue training a model on domain text."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

from elmokit.cli import training
from elmokit.cli.options import Quiet
from elmokit.cli.setting_flags import shown, with_settings
from elmokit.pretrain.presets import FINETUNE
from elmokit.pretrain.training_settings import TrainingSettings


def _finetune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model: folder, file, zip or name.")],
    output: training.Output,
    tokenize: training.Tokenize = False,
    *,
    resume: training.Resume = False,
    overwrite: training.Overwrite = False,
    device: training.Device = None,
    threads: training.Threads = None,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Fine-tune a model, for example: elmo finetune run/ --train domain.txt --heldout domain-dev.txt -o domain/

    By default one pass with a low learning rate. Published weights come without a softmax: one is fitted first, with
    all else frozen, over the model's vocabulary or one built from the text; --epochs, --steps and --minutes hold for
    both runs. If the held-out perplexity never falls, the result is the model as it was.
    """
    from elmokit.pretrain import finetune as room

    given = training.given_settings(given, tokenize=tokenize)
    folder = training.expanded(output)
    with training.session(folder, device, threads) as processes, training.counting(quiet=quiet) as progress:
        for run in room.finetune(
            model,
            folder,
            processes,
            given=given,
            notes={"command": training.command_line()},
            resume=resume,
            overwrite=overwrite,
            progress=progress,
            say=lambda line: None if quiet or not processes.is_first else typer.echo(line, err=True),
        ):
            training.follow(run, quiet=quiet)


finetune = with_settings(
    _finetune,
    TrainingSettings,
    after="output",
    exclude=training.NO_FLAGS,
    defaults={item.name: shown(getattr(FINETUNE, item.name)) for item in fields(FINETUNE)},
)
