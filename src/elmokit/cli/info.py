"""`elmo info`: describe a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmokit.cli.options import AsJson

if TYPE_CHECKING:
    from elmokit.weights import Model


def info(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Model: folder, file, zip or name [the packaged model].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a model, for example: elmo info elmo_weights.hdf5"""
    from elmokit import weights

    facts = describe(weights.load(model))
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        if isinstance(value, list):
            first, *rest = value or ["none"]
            typer.echo("\n".join([f"{name:<12} {first}", *(f"{'':<12} {line}" for line in rest)]))
        elif isinstance(value, bool):
            typer.echo(f"{name:<12} {'yes' if value else 'no'}")
        elif isinstance(value, int):
            typer.echo(f"{name:<12} {value:,}")
        else:
            typer.echo(f"{name:<12} {'unknown' if value is None else value}")


def describe(model: Model) -> dict[str, Any]:
    """The facts that `elmo info` prints, in its order."""
    lstm, chars = model.config.lstm, model.config.char_cnn
    shape = [
        f"{lstm.n_layers} LSTM layers per direction, {lstm.dim} cells, projected to {lstm.projection_dim}",
        f"{model.config.n_vectors} vectors of {model.config.vector_dim} per token",
    ]
    if chars is not None:
        shape.append(f"characters: {chars.alphabet}, {chars.n_filters} filters, {chars.n_highway} highways")
    if model.config.n_words:
        shape.append(f"word table: {model.config.n_words} rows of {model.config.word_dim}")
    return {
        "format": model.format,
        "shape": shape,
        "parameters": model.parameter_count,
        "state": model.config.state,
        "license": model.license,
        "vocabulary": len(model.vocabulary) if model.vocabulary is not None else 0,
        "softmax": model.has_softmax,
        "mixes": len(model.mixes),
        "files": [str(path) for path in model.files],
        "fingerprint": model.fingerprint,
    }
