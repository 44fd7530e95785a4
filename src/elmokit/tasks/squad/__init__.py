"""Reading comprehension on SQuAD: the words of a passage that answer a question."""

from elmokit.tasks.squad.squad_task import Squad

__all__ = ["Squad"]
