"""Noisy copies of training sentences, so that a tagger expects misspelled words and missing capitals."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from elmokit.tasks.shared.task_settings import TaggerSettings
from elmokit.text.noise import noisy_sentence

Example = TypeVar("Example")


def noisy_copies(sentences: Sequence[Example], settings: TaggerSettings) -> list[Example]:
    """A noisy copy of every sentence, drawn with the seed; none without `--noise`.

    sentences: dataclasses with `tokens`, whose number stays, so that all labels of the sentence fit its copy.
    """
    if not settings.noise:
        return []
    rng = random.Random(settings.seed)

    def copy(sentence: Any) -> Example:
        noisy: Example = replace(sentence, tokens=tuple(noisy_sentence(sentence.tokens, settings.noise, rng)))
        return noisy

    return [copy(sentence) for sentence in sentences]
