"""elmokit: deep contextualized word vectors (ELMo, Peters et al. 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmokit.embed.elmo import Elmo
    from elmokit.embed.sentence import EmbeddedSentence
    from elmokit.nn.elmo import ElmoEmbedding
    from elmokit.nn.scalar_mix import ScalarMix
    from elmokit.tasks.model import TaskModel

__version__ = "0.3.0"
__all__ = ["Elmo", "ElmoEmbedding", "EmbeddedSentence", "ScalarMix", "TaskModel", "__version__"]

_HOMES = {
    "Elmo": "elmokit.embed.elmo",
    "EmbeddedSentence": "elmokit.embed.sentence",
    "ElmoEmbedding": "elmokit.nn.elmo",
    "ScalarMix": "elmokit.nn.scalar_mix",
    "TaskModel": "elmokit.tasks.model",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes a second, and `elmo --help` should not wait for it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'elmokit' has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
