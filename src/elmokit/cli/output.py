"""The option that commands with an output file have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an existing output file once the new one is complete."),
]


def print_table(table: Table) -> None:
    """Print a table: on a terminal as wide as that, in a pipe as wide as it needs to be."""
    from rich.console import Console

    Console(width=None if Console().is_terminal else 10_000).print(table)
