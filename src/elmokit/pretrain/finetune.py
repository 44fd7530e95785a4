"""Fine-tuning: a model goes on learning, on the text of one domain (Peters et al. 2018, section 3.4).

Published weights come without the softmax that they were trained with. For them one is fitted first, while the rest of
the model stays as it is; only then is the model changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmokit import weights
from elmokit.errors import ConfigError
from elmokit.nn.softmax import AdaptiveHead, Head
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.presets import FINETUNE, FIT_RATE, MOST_WORDS
from elmokit.pretrain.run import (
    SOFTMAX,
    Run,
    figures_of,
    heldout_perplexity,
    in_the_way,
    open_run,
    overlapping,
    words_to_predict,
)
from elmokit.pretrain.settings import TrainingSettings
from elmokit.pretrain.state import TrainingState
from elmokit.pretrain.vocabulary import check_vocabulary, require_marks
from elmokit.text.vocabulary import Vocabulary, vocabulary_of
from elmokit.weights import Model


def finetune(
    name: str,
    folder: Path,
    processes: Processes,
    *,
    given: dict[str, Any],
    notes: dict[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda _: None,
    progress: Callable[[float], None] = lambda _: None,
) -> Iterator[Run]:
    """The runs to make, one after the other: where it is needed, one that fits a softmax; and the fine-tuning.

    Each run must be complete before the next is asked for. given: settings, as flags have them; what is None comes from
    `FINETUNE`. The perplexity before is the first that the run knows, so a model that only gets worse is not replaced.
    """
    place = Path(os.path.expanduser(name)).resolve()
    if place.exists() and folder.resolve() in (place, *place.parents):
        raise ConfigError(f"-o: expected another folder than that of the model, found {folder}; choose another name")
    model = weights.load(name)
    in_tiers = model.has_softmax and isinstance(model.softmax(), AdaptiveHead)
    settings = FINETUNE.changed(**given)
    if in_tiers and given.get("loss") is None:
        settings = replace(settings, loss="adaptive")
    _require_its_words(model, settings)
    old = in_the_way(folder, resume=resume, overwrite=overwrite) if processes.is_first else []

    def suited(vocabulary: Vocabulary) -> TrainingSettings:
        """The settings with a loss that so many words allow, unless one was asked for."""
        too_many = settings.loss == "full" and given.get("loss") is None and len(vocabulary) > MOST_WORDS
        return replace(settings, loss="sampled") if too_many else settings

    def begin_fit() -> TrainingState:
        for_both = {"overlap": overlapping(settings), "learning_rate": settings.learning_rate}
        vocabulary = _vocabulary(model, settings, progress)
        rate = given.get("learning_rate") or FIT_RATE
        state = _begin(model, replace(suited(vocabulary), frozen=True, learning_rate=rate), vocabulary, None, processes)
        state.notes |= {**(notes or {}), **for_both, "parent": f"{name}, all but the softmax, which is new"}
        return state

    def begin() -> TrainingState:
        parent = weights.load(folder / SOFTMAX) if needs_fit else model
        assert parent.vocabulary is not None
        vocabulary = vocabulary_of(parent.config, parent.vocabulary)
        state = _begin(parent, suited(vocabulary), vocabulary, parent.softmax(), processes)
        state.notes |= {**(notes or {}), "parent": name + (", with a softmax fitted to this text" if needs_fit else "")}
        state.notes["overlap"] = fit.state.notes["overlap"] if needs_fit else overlapping(settings)
        if settings.heldout is not None:
            before = heldout_perplexity(state, state.settings)
            state.best = {"step": 0, **figures_of(before)}
            state.notes["before"] = before.mean
            say(f"held-out perplexity before: {before.mean:,.2f}")
        return state

    is_other = in_tiers != (settings.loss == "adaptive")
    was_fitted = not old and (folder / SOFTMAX).exists()
    # the first process decides for all: the others do not know whether what they find is to be overwritten
    decided = processes.is_first and (was_fitted or is_other or _needs_fit(model, settings))
    [needs_fit] = processes.total(float(decided))
    if needs_fit:
        kind = f"{settings.loss} " if model.has_softmax and is_other else ""
        say(f"{name}: has no {kind}softmax over these words; fitting one first, with all else as it is")
        fit = open_run(folder / SOFTMAX, processes, begin_fit, resume=True, given=given, old=old)
        yield fit
        old = []
        # of a run that goes on, the fit knows more than was given now
        settings = replace(fit.state.settings, frozen=False, learning_rate=fit.state.notes["learning_rate"])
    yield open_run(folder, processes, begin, resume=True, given=given, old=old)


def _needs_fit(model: Model, settings: TrainingSettings) -> bool:
    return not model.has_softmax or model.vocabulary is None or _has_other_words(model, settings)


def _has_other_words(model: Model, settings: TrainingSettings) -> bool:
    return settings.vocabulary is not None and Vocabulary.from_file(settings.vocabulary).words != model.vocabulary


def _vocabulary(model: Model, settings: TrainingSettings, progress: Callable[[float], None]) -> Vocabulary:
    """The words of a new softmax: those of a file, those of the model, or the most frequent of the text."""
    if model.vocabulary is None or _has_other_words(model, settings):
        return words_to_predict(settings, progress)
    vocabulary = vocabulary_of(model.config, model.vocabulary)
    (require_marks if model.config.n_words else check_vocabulary)(vocabulary)
    return vocabulary


def _begin(
    model: Model, settings: TrainingSettings, vocabulary: Vocabulary, head: Head | None, processes: Processes
) -> TrainingState:  # fmt: skip
    config = replace(model.config, state="reset")  # whatever it was: from now on every sentence starts from zero
    return TrainingState.begin(
        config, settings, vocabulary, bilm=model.bilm, head=head, alphabet=model.alphabet, device=processes.device
    )  # fmt: skip


def _require_its_words(model: Model, settings: TrainingSettings) -> None:
    """A model with a word table predicts the words that it reads: its folder has one vocabulary for both."""
    if not model.config.n_words:
        return
    if model.vocabulary is None:
        raise ConfigError(f"{model.format} model: expected its words, found none; put its vocabulary.txt beside it")
    if _has_other_words(model, settings):
        raise ConfigError(
            f"--vocabulary: expected the words of the model, which reads words too, found others in "
            f"{settings.vocabulary}; leave it out"
        )
