"""elmokit: deep contextualized word vectors (ELMo, Peters et al. 2018)."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmokit.analysis.senses.similarity_map import similarity_map
    from elmokit.embed.elmo import Elmo, load
    from elmokit.embed.embedding import ElmoEmbedding
    from elmokit.embed.sentence import EmbeddedSentence
    from elmokit.nn.scalar_mix import ScalarMix
    from elmokit.pretrain.from_python import pretrain
    from elmokit.tasks.runs.task_model import TaskModel
    from elmokit.tasks.text_tagger import TextTagger, load_tagger

__version__ = "0.5.0"
__all__ = [
    "Elmo",
    "ElmoEmbedding",
    "EmbeddedSentence",
    "ScalarMix",
    "TaskModel",
    "TextTagger",
    "__version__",
    "load",
    "load_tagger",
    "pretrain",
    "similarity_map",
]

_HOMES = {
    "Elmo": "elmokit.embed.elmo",
    "EmbeddedSentence": "elmokit.embed.sentence",
    "ElmoEmbedding": "elmokit.embed.embedding",
    "ScalarMix": "elmokit.nn.scalar_mix",
    "TaskModel": "elmokit.tasks.runs.task_model",
    "TextTagger": "elmokit.tasks.text_tagger",
    "load": "elmokit.embed.elmo",
    "load_tagger": "elmokit.tasks.text_tagger",
    "similarity_map": "elmokit.analysis.senses.similarity_map",
}


def _choose_wait_policy() -> None:
    """Choose how OpenMP threads wait for each other, unless the user has chosen or torch is loaded already.

    By default they spin for milliseconds. That is fastest on an idle machine, but very slow on a busy one, where
    spinning threads take the cores from working ones. A brief spin has no measurable cost on an idle machine; if other
    programs keep half of the cores busy, threads sleep at once (benchmarks/threads.py, docs/results/threads.json).
    OpenMP reads these variables once, when torch is loaded; child processes inherit them.
    """
    own = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
    if "torch" in sys.modules or any(name in os.environ for name in own):
        return
    if _is_busy():
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    else:
        os.environ["GOMP_SPINCOUNT"] = "10000"  # libgomp, which torch uses on Linux; other libraries ignore it


def _is_busy() -> bool:
    """Whether other programs keep half of the cores busy, in three successive samples. False if unknown."""
    for look in range(3):
        time.sleep(0.003 if look else 0)
        try:
            with open("/proc/loadavg", encoding="ascii") as file:
                others = int(file.read().split()[3].split("/")[0]) - 1
        except (OSError, ValueError, IndexError):
            return False
        if 2 * others < (os.cpu_count() or 1):
            return False
    return True


_choose_wait_policy()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes a second, and `elmo --help` should not wait for it."""
    from importlib import import_module

    if name == "pretrain":  # a package that can be called
        return import_module("elmokit.pretrain")
    if name not in _HOMES:
        raise AttributeError(f"module 'elmokit' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
