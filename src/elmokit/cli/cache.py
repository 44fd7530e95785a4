"""`elmo cache`: the layers that tasks have computed and kept."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli import training

cache = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[
    Path | None, typer.Option("--cache-dir", metavar="FOLDER", help="Folder of the layer cache [~/.cache/elmokit].")
]


@cache.callback()
def _cache() -> None:
    """List and clear the biLM layers that `elmo task` has cached."""


@cache.command(name="list", short_help="List the cached layers.")
def list_(
    cache_dir: Folder = None, as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False
) -> None:
    """List the cached layers of each model, last used first: elmo cache list"""
    from dataclasses import asdict

    from elmokit.tasks.runs.layer_cache import LayerCache

    found = LayerCache(cache_dir and training.expanded(cache_dir))
    entries = found.entries()
    for entry in entries:
        if as_json:
            typer.echo(json.dumps(asdict(entry)))
            continue
        used = datetime.fromtimestamp(entry.last_used).strftime("%Y-%m-%d %H:%M")
        typer.echo(
            f"{entry.model[:12]}  {entry.state:<5}  {entry.sentences:>9,} sentences  {entry.tokens:>11,} tokens  "
            f"{entry.bytes / 1e9:7.2f} GB  last used {used}"
        )
    if not as_json:
        typer.echo(f"{found.root}: {sum(entry.bytes for entry in entries) / 1e9:.2f} GB")


@cache.command(short_help="Delete cached layers.")
def clear(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Start of a model's fingerprint, as in `elmo cache list` [all models]."),
    ] = "",
    cache_dir: Folder = None,
) -> None:
    """Delete the cached layers of one model, or of all: elmo cache clear"""
    from elmokit.errors import InputError
    from elmokit.tasks.runs.layer_cache import LayerCache

    found = LayerCache(cache_dir and training.expanded(cache_dir))
    if model and not any(entry.model.startswith(model) for entry in found.entries()):
        raise InputError(f"{found.root}: expected layers of a model that begins with {model!r}, found none")
    typer.echo(f"{found.root}: {found.clear(model) / 1e9:.2f} GB deleted")
