"""`elmo finetune`: a model trained on, on text of one domain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from elmokit.cli import training


def finetune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder, file or zip of a model, or its name.")],
    output: training.Output,
    train: training.Train = None,
    heldout: training.Heldout = None,
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
    seed: training.Seed = None,
    heldout_every: training.HeldoutEvery = None,
    checkpoint_every: training.CheckpointEvery = None,
    log_every: training.LogEvery = None,
    precision: training.Precision = None,
    device: training.Device = None,
    threads: training.Threads = None,
    quiet: training.Quiet = False,
) -> None:
    """Fine-tune a model, for example: elmo finetune run/ --train domain.txt --heldout domain-dev.txt -o domain/

    By default one pass with a low learning rate. Published weights come without a softmax: one is fitted first, with
    all else frozen, over the model's vocabulary or one built from the text; --epochs, --steps and --minutes hold for
    both runs. If the held-out perplexity never falls, the result is the model as it was.
    """
    given: dict[str, Any] = {
        "train": training.absolutes(train), "heldout": training.absolute(heldout),
        "vocabulary": training.absolute(vocabulary), "vocabulary_size": vocabulary_size,
        "tokenizer": tokenizer or ("words" if tokenize else None), "max_sentence": max_sentence,
        "encoding_errors": encoding_errors, "epochs": epochs, "steps": steps, "minutes": minutes,
        "batch_tokens": batch_tokens, "accumulate": accumulate, "loss": loss, "n_samples": n_samples,
        "dropout": dropout, "optimiser": optimiser, "learning_rate": learning_rate, "warm_up": warm_up,
        "decay": decay, "clip": clip, "seed": seed, "heldout_every": heldout_every,
        "checkpoint_every": checkpoint_every, "log_every": log_every, "precision": precision,
    }  # fmt: skip
    import torch

    from elmokit.pretrain import finetune as room
    from elmokit.pretrain.distributed import joined
    from elmokit.pretrain.presets import FINETUNE

    if threads is not None:
        torch.set_num_threads(threads)
    with joined(device) as processes, training.counting(quiet=quiet) as progress:
        if processes.is_first and not resume:
            training.warn_of_overlap(FINETUNE.changed(**given))
        for run in room.finetune(
            model, output.expanduser(), processes, given=given, notes={"command": training.command()},
            resume=resume, overwrite=overwrite, progress=progress,
            say=lambda line: None if quiet or not processes.is_first else typer.echo(line, err=True),
        ):  # fmt: skip
            training.follow(run, quiet=quiet)
