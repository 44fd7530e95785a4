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


def commands(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that do something, with the words that call them."""
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    context = click.Context(command)
    for child in command.list_commands(context):
        yield from commands(command.get_command(context, child), (*name, child))


COMMANDS = dict(commands(typer.main.get_command(app)))
# Without these options there is nothing: a file or folder that may be given, or another way of saying the same
NOTHING_BY_DEFAULT = {"FILE", "FILES", "FOLDER", "JSON", "OUT", "RUN"}
INSTEAD_OF_OTHERS = {"mix", "steps", "minutes", "decay_now", "grow", "texts"}


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_every_option_a_help_with_its_default(name: tuple[str, ...]) -> None:
    command = COMMANDS[name]
    assert f"elmo {' '.join(name)}" in " ".join((command.help or "").split())
    for parameter in command.params:
        text = getattr(parameter, "help", None) or ""
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        assert text.endswith((".", "]")) and not text.startswith(("Of ", "By default")), (parameter.name, text)
        if parameter.required or getattr(parameter, "is_flag", False) or parameter.metavar in NOTHING_BY_DEFAULT:
            continue
        shown = parameter.show_default and parameter.default is not None
        has_none = parameter.name in INSTEAD_OF_OTHERS or (name, parameter.name) == (("report",), "model")
        assert shown or "[" in text or has_none, (parameter.name, text)


@pytest.mark.parametrize("name", ["ner", "squad"])
def test_a_task_without_task_is_told_the_full_name(name: str) -> None:
    result = CliRunner().invoke(app, [name, "train", "--train", "a.txt"])
    assert result.exit_code == 2 and f"use: elmo task {name} train" in result.stderr
