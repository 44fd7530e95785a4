"""The tasks by name. Imports nothing heavy: the command line reads it for its help."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmokit.errors import ConfigError

if TYPE_CHECKING:
    from elmokit.tasks.task import Task

TASKS = {
    "ner": "elmokit.tasks.ner:Ner",
    "sst": "elmokit.tasks.sst:Sst",
    "snli": "elmokit.tasks.snli:Snli",
    "squad": "elmokit.tasks.squad.task:Squad",
    "srl": "elmokit.tasks.srl.task:Srl",
    "coref": "elmokit.tasks.coref.task:Coref",
}

ABOUT = {
    "ner": "Named entities: spans of tokens and their types.",
    "sst": "Sentiment of a sentence.",
    "snli": "Whether one sentence follows from another.",
    "squad": "Answers to questions about a passage.",
    "srl": "Who did what to whom: predicates and their arguments.",
    "coref": "Which mentions in a document are of the same thing.",
}


def get_task(name: str) -> Task[Any, Any]:
    """A task by its name."""
    if name not in TASKS:
        raise ConfigError(f"task: expected one of {', '.join(TASKS)}, found {name!r}")
    module, _, cls = TASKS[name].partition(":")
    task: Task[Any, Any] = getattr(import_module(module), cls)()
    return task
