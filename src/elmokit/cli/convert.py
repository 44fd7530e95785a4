"""`elmo convert`: a model of any format into the native one, or into a foreign one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="Model to read: a folder, a file, a zip, or the name of a packaged model.",
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    to: Annotated[
        Literal["native", "hdf5", "allennlp", "efml", "transformers"],
        typer.Option(
            "--to",
            help="Format to write: our own, the published HDF5, a state dict of AllenNLP's Elmo, ELMoForManyLangs, or "
            "a folder for Hugging Face transformers and sentence-transformers.",
        ),
    ] = "native",
    half: Annotated[bool, typer.Option("--half", help="Store 16-bit weights: half the size (native only).")] = False,
    no_softmax: Annotated[bool, typer.Option("--no-softmax", help="Leave the softmax out: vectors need none.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUT if it is a model already, with nothing else beside it.")
    ] = False,
) -> None:
    """Convert a model, for example: elmo convert elmo_weights.hdf5 my-elmo --half

    Softmax, vocabulary and model card are converted, too. Only the native format holds
    every model with its softmax; allennlp, efml and transformers have none.
    """
    from dataclasses import replace

    from elmokit import weights
    from elmokit.errors import ConfigError
    from elmokit.weights import allennlp, bilm_hdf5, efml

    if half and to != "native":
        raise ConfigError(f"--half: expected --to native, found --to {to}, whose readers want 32-bit numbers")
    model = weights.load(source)
    if no_softmax:
        model = replace(model, read_softmax=None)
    if to == "native":
        weights.save(model, target, half=half, overwrite=overwrite)
    elif to == "hdf5":
        bilm_hdf5.save(model, target, overwrite=overwrite)
    elif to == "allennlp":
        allennlp.save(model, target, overwrite=overwrite)
    elif to == "efml":
        efml.save(model, target, overwrite=overwrite)
    else:
        from elmokit.integrations.transformers import save_folder

        save_folder(model, target, overwrite=overwrite)
    size = sum(file.stat().st_size for file in Path(os.path.expanduser(target)).iterdir())
    lost = ", without its softmax" if model.has_softmax and to in ("allennlp", "efml", "transformers") else ""
    typer.echo(f"{target}: {model.format} to {to}, {model.parameter_count:,} parameters{lost}, {size / 1e6:.1f} MB")
