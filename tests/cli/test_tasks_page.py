"""The flags that docs/tasks.md speaks of exist."""

from __future__ import annotations

import re
from pathlib import Path

from shown_commands import find, flags

from elmokit.tasks.shared.task_registry import TASKS

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")


def test_flags_in_the_text_exist() -> None:
    known = {"--help", "--json"} | flags(find(["finetune"])[0])
    for task in TASKS:
        known |= flags(find(["task", task, "train"])[0])
    assert set(re.findall(r"--[a-z][a-z0-9-]+", PAGE)) <= known
