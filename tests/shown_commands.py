"""The commands that a page of documentation shows, held against those that there are."""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer.main

from elmokit.cli import app

ROOT: Any = typer.main.get_command(app)


def find(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words begin with, and the words after it."""
    found, context = ROOT, typer.Context(ROOT)
    while words and hasattr(found, "get_command") and (inner := found.get_command(context, words[0])) is not None:
        found, words = inner, words[1:]
    return found, words


def flags(found: Any) -> set[str]:
    return {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}


def check(page: str) -> int:
    """Fail at a command or flag that does not exist; returns how many commands the page shows."""
    blocks = re.findall(r"```sh\n(.*?)```", page.replace("\\\n", " "), flags=re.DOTALL)
    lines = re.findall(r"^(?:.*[|&;] )?(elmo .*)", "\n".join(blocks), flags=re.MULTILINE)
    for line in lines:
        found, rest = find(shlex.split(line, comments=True)[1:])
        assert not hasattr(found, "get_command"), line
        assert {word for word in rest if word.startswith("-") and word != "-"} <= flags(found), line
    return len(lines)
