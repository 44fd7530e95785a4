"""The commands and flags that docs/tasks.md shows exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import typer.main

from elmokit.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
ROOT: Any = typer.main.get_command(app)


def command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words begin with, and the words after it."""
    found, context = ROOT, typer.Context(ROOT)
    while words and hasattr(found, "get_command") and (inner := found.get_command(context, words[0])) is not None:
        found, words = inner, words[1:]
    return found, words


def flags(found: Any) -> set[str]:
    return {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_commands_exist_with_the_options_shown() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if "elmo " in line]
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line[line.index("elmo ") :], comments=True)[1:]
        found, rest = command(words)
        assert not hasattr(found, "get_command"), line
        assert {word for word in rest if word.startswith("-")} <= flags(found), line


def test_flags_in_the_text_exist() -> None:
    known = {"--help", "--train", "--json", "--model", "--cache-dir", "--cache-limit"} | flags(
        command(["task", "ner", "train"])[0]
    )
    for task in ("sst", "snli", "squad", "srl", "coref"):
        known |= flags(command(["task", task, "train"])[0])
    assert set(re.findall(r"--[a-z][a-z0-9-]+", PAGE)) <= known
