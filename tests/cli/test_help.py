"""Help of every command, and hints for commands that are close."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer.main
from typer.testing import CliRunner

from elmokit.cli import app


def groups(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "list_commands"):
        yield name, command
        for child in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), child)
            yield from groups(found, (*name, child))


def test_no_line_of_a_list_of_commands_ends_in_the_middle() -> None:
    found = list(groups(typer.main.get_command(app)))
    assert {("index",), ("static",), ("task",), ()} <= {name for name, _ in found}
    wrong = []
    for name, command in found:
        context = click.Context(command)
        for child in command.list_commands(context):
            shown = command.get_command(context, child).get_short_help_str(limit=200)
            if not shown or "for example" in shown:
                wrong.append((*name, child))
    assert not wrong


@pytest.mark.parametrize("name", ["ner", "squad"])
def test_a_task_without_task_is_told_the_full_name(name: str) -> None:
    result = CliRunner().invoke(app, [name, "train", "--train", "a.txt"])
    assert result.exit_code == 2 and f"say: elmo task {name} train" in result.stderr
