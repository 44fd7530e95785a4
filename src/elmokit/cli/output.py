"""Tables of results in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def results_table(*columns: str, title: str | None = None, caption: str | None = None) -> Table:
    """New table; columns with a heading are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, caption=caption, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    return table


def print_table(table: Table) -> None:
    """Print a table, fitted to the width of a terminal, at its full width in a pipe."""
    from rich.console import Console

    Console(width=None if Console().is_terminal else 10_000).print(table)
