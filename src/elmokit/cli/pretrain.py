"""`elmo pretrain`: a biLM from text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elmokit.cli import training

if TYPE_CHECKING:
    from elmokit.pretrain.state import TrainingState


def pretrain(
    output: training.Output,
    train: training.Train = None,
    heldout: training.Heldout = None,
    preset: Annotated[
        Literal["tiny", "base", "small", "medium", "original"] | None,
        typer.Option(help="Shape and settings: tiny takes seconds; the last three are as published. Default: base."),
    ] = None,
    options: Annotated[
        str | None, typer.Option(metavar="FILE", help="Another shape: an options.json, as published.")
    ] = None,
    resume: training.Resume = False,
    overwrite: training.Overwrite = False,
    vocabulary: training.VocabularyFile = None,
    vocabulary_size: training.VocabularySize = None,
    tokenize: training.Tokenize = False,
    tokenizer: training.TokenizerName = None,
    max_sentence: training.MaxSentence = None,
    encoding_errors: training.EncodingErrors = None,
    epochs: training.Epochs = None,
    steps: training.Steps = None,
    minutes: training.Minutes = None,
    batch_tokens: training.BatchTokens = None,
    accumulate: training.Accumulate = None,
    loss: training.LossKind = None,
    n_samples: training.Samples = None,
    dropout: training.Dropout = None,
    optimiser: training.Optimiser = None,
    learning_rate: training.LearningRate = None,
    warm_up: training.WarmUp = None,
    decay: training.Decay = None,
    clip: training.Clip = None,
    loss_scale: training.LossScale = None,
    seed: training.Seed = None,
    heldout_every: training.HeldoutEvery = None,
    checkpoint_every: training.CheckpointEvery = None,
    log_every: training.LogEvery = None,
    precision: training.Precision = None,
    device: training.Device = None,
    threads: training.Threads = None,
    quiet: training.Quiet = False,
) -> None:
    """Train a biLM, for example: elmo pretrain --train 'corpus/*.txt.xz' --heldout dev.txt -o run/

    The folder is a model that every other command can load: the best weights so far, with a card. What is not said
    comes from the preset. After a crash the same command with --resume ends with the same weights.

    \b
    elmo pretrain --train book.txt --heldout dev.txt -o try/ --preset tiny --tokenize
    elmo pretrain -o run/ --resume
    torchrun --nproc-per-node 8 -m elmokit pretrain --train 'corpus/*.xz' --heldout dev.txt -o run/ --resume
    """
    given: dict[str, Any] = {
        "preset": preset, "options": training.absolute(options),
        "train": training.absolutes(train),
        "heldout": training.absolute(heldout), "vocabulary": training.absolute(vocabulary),
        "vocabulary_size": vocabulary_size, "tokenizer": tokenizer or ("words" if tokenize else None),
        "max_sentence": max_sentence, "encoding_errors": encoding_errors, "epochs": epochs, "steps": steps,
        "minutes": minutes, "batch_tokens": batch_tokens, "accumulate": accumulate, "loss": loss,
        "n_samples": n_samples, "dropout": dropout, "optimiser": optimiser, "learning_rate": learning_rate,
        "warm_up": warm_up, "decay": decay, "clip": clip, "loss_scale": loss_scale, "seed": seed,
        "heldout_every": heldout_every, "checkpoint_every": checkpoint_every, "log_every": log_every,
        "precision": precision,
    }  # fmt: skip
    import torch

    from elmokit.pretrain.distributed import joined
    from elmokit.pretrain.run import open_run

    if threads is not None:
        torch.set_num_threads(threads)
    with joined(device) as processes:
        run = open_run(
            output.expanduser(), processes, lambda: _begin(given, quiet=quiet),
            resume=resume, overwrite=overwrite, given=given,
        )  # fmt: skip
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
    training.warn_of_overlap(settings)
    with training.counting(quiet=quiet) as progress:
        state = new_state(config, settings, progress)
    state.notes["command"] = training.command()
    return state
