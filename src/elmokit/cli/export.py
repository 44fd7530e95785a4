"""`elmo export`: a model in a form that runs elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli.options import ModelPath, Overwrite
from elmokit.config import IndependentState

export = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@export.callback()
def _export() -> None:
    """Export a model for use in a browser or on another runtime."""


@export.command(short_help="Write the explorer page with a model inside.")
def web(
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write; it must not exist yet.")],
    model: ModelPath = None,
) -> None:
    """Write a static folder: the explorer page with a model inside, which computes in the browser.

    \b
    elmo export web site/
    python -m http.server --directory site 8000

    Any static host serves it. For a smaller download, convert the model to half precision first (elmo convert --half).
    """
    from elmokit import weights
    from elmokit.serve.pages import export_web

    written = export_web(weights.load(model), target)
    size = sum(path.stat().st_size for path in written.rglob("*") if path.is_file())
    typer.echo(f"{target}: page and model, {size / 1e6:.1f} MB; try python -m http.server --directory {target}")


@export.command(short_help="Write a model as an ONNX file.")
def onnx(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model: folder, file, zip or name; base is the packaged model.")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="ONNX file to write.")],
    half: Annotated[
        bool, typer.Option("--half", help="Store 16-bit weights: half the size; computation stays in 32 bits.")
    ] = False,
    state: Annotated[
        IndependentState | None,
        typer.Option(help="Initial state of a sentence: zero, or one fixed warm state [that of the model]."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a model as an ONNX file, which runs without torch: on onnxruntime, in any of its languages.

    \b
    elmo export onnx base elmo.onnx --half

    The file appears after its vectors have been compared with those of the engine. In Python,
    elmokit.integrations.onnx.OnnxElmo reads it. Requires elmokit[onnx].
    """
    from elmokit.embed.elmo import load
    from elmokit.errors import ConfigError
    from elmokit.integrations.onnx_export import export_onnx

    elmo = load(model, state=state)
    if not elmo.independent:
        raise ConfigError(f"--state: expected reset or warm for ONNX, found {elmo.state} in the options of the model")
    difference = export_onnx(elmo, target, half=half, overwrite=overwrite)
    changed = f", rounding to 16 bits changed vectors by {difference['rounding']:.1e}" if difference["rounding"] else ""
    typer.echo(
        f"{target}: {target.stat().st_size / 1e6:.1f} MB, equals the engine to {difference['engine']:.1e}{changed}"
    )
