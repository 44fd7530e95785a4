"""Semantic role labeling: who did what to whom, for every predicate of a sentence."""

from elmokit.tasks.srl.srl_task import Srl, SrlSettings

__all__ = ["Srl", "SrlSettings"]
