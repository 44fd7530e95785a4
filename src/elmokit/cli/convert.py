"""`elmo convert`: a model of any format into the native one, or into the published HDF5."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="Model to read: a folder, a file or a zip of any format.")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    to: Annotated[Literal["native", "hdf5"], typer.Option("--to", help="Format to write.")] = "native",
    half: Annotated[bool, typer.Option("--half", help="Store 16-bit numbers: half the size (native only).")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is a model already.")] = False,
) -> None:
    """Convert a model, for example: elmo convert elmo_weights.hdf5 my-elmo --half

    The softmax, the vocabulary and the model card come along where the model has them.
    """
    from elmokit import weights
    from elmokit.errors import ConfigError
    from elmokit.weights import bilm_hdf5

    if half and to == "hdf5":
        raise ConfigError("--half: expected --to native, found --to hdf5, whose readers want 32-bit numbers")
    model = weights.load(source)
    if to == "hdf5":
        bilm_hdf5.save(model, target, overwrite=overwrite)
    else:
        weights.save(model, target, half=half, overwrite=overwrite)
    size = sum(file.stat().st_size for file in target.expanduser().iterdir())
    typer.echo(f"{target}: {model.format} to {to}, {model.parameter_count:,} parameters, {size / 1e6:.1f} MB")
