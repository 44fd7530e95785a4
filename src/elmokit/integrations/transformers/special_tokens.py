"""Special tokens of a model's vocabulary, and their ids."""

from __future__ import annotations

from collections.abc import Sequence

from elmokit.config import ModelConfig
from elmokit.text.vocabulary import marks_of

PAD = "<PAD>"
NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")


def special_tokens(shape: ModelConfig) -> dict[str, str]:
    """Start and end of sentence, unknown word and padding, by the names of transformers."""
    return dict(zip(NAMES, (*marks_of(shape), PAD), strict=True))


def special_ids(shape: ModelConfig, words: Sequence[str]) -> dict[str, int]:
    """Ids of the special tokens; those that the vocabulary lacks come after its words."""
    known, following = {word: index for index, word in enumerate(words)}, len(words)
    ids = {}
    for name, token in special_tokens(shape).items():
        ids[name] = known.get(token, following)
        following += token not in known
    return ids
