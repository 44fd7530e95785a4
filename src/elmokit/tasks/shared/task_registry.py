"""Registry of the tasks by name. Imports nothing heavy, because the command line reads it for `--help`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmokit.errors import ConfigError

if TYPE_CHECKING:
    from elmokit.tasks.shared.task_base import Task

TASKS = {
    "ner": "elmokit.tasks.ner:Ner",
    "sst": "elmokit.tasks.sst:Sst",
    "snli": "elmokit.tasks.snli:Snli",
    "squad": "elmokit.tasks.squad.squad_task:Squad",
    "srl": "elmokit.tasks.srl.srl_task:Srl",
    "coref": "elmokit.tasks.coref.coref_task:Coref",
    "pos": "elmokit.tasks.pos:Pos",
    "upos": "elmokit.tasks.pos:Upos",
}

ABOUT = {
    "ner": "Named entity recognition: spans of tokens and their types.",
    "sst": "Sentiment classification of sentences.",
    "snli": "Natural language inference (textual entailment) on sentence pairs.",
    "squad": "Question answering: the span of a passage that answers a question.",
    "srl": "Semantic role labeling: predicates and their arguments.",
    "coref": "Coreference resolution: clusters of mentions in a document.",
    "pos": "Part-of-speech tagging with the tags of the treebank (xpos of CoNLL-U).",
    "upos": "Part-of-speech tagging with universal tags (upos of CoNLL-U).",
}


def get_task(name: str) -> Task[Any, Any]:
    """Return the task of this name."""
    if name not in TASKS:
        raise ConfigError(f"task: expected one of {', '.join(TASKS)}, found {name!r}")
    module, _, cls = TASKS[name].partition(":")
    task: Task[Any, Any] = getattr(import_module(module), cls)()
    return task
