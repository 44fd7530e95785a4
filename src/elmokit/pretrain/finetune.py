"""Fine-tuning: continue training a model on text of one domain (Peters et al. 2018, section 3.4).

Published weights come without their softmax. For these a new softmax is fitted first, with all other weights frozen;
then the whole model is trained.
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
from elmokit.pretrain.output_vocabulary import check_vocabulary, require_marks
from elmokit.pretrain.presets import FINETUNE, FIT_RATE, MAX_FULL_SOFTMAX_WORDS
from elmokit.pretrain.pretrain_run import (
    SOFTMAX,
    PretrainRun,
    heldout_overlap,
    heldout_perplexity,
    load_or_build_vocabulary,
    open_run,
    perplexity_values,
    run_to_replace,
)
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.pretrain.training_state import TrainingState
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
) -> Iterator[PretrainRun]:
    """Yield the runs in order: if needed, one that fits a softmax; then the fine-tuning.

    Each run must be complete before the next is requested. given: settings by name; those that are None come from
    `FINETUNE`. The held-out perplexity before training counts as the first evaluation, so a model that only gets worse
    is not replaced.
    """
    place = Path(os.path.expanduser(name)).resolve()
    if place.exists() and folder.resolve() in (place, *place.parents):
        raise ConfigError(f"-o: expected a folder other than that of the model, found {folder}; choose another name")
    model = weights.load(name)
    is_adaptive = model.has_softmax and isinstance(model.softmax(), AdaptiveHead)
    settings = FINETUNE.changed(**given)
    if is_adaptive and given.get("loss") is None:
        settings = replace(settings, loss="adaptive")
    _check_vocabulary_matches(model, settings)
    old = run_to_replace(folder, resume=resume, overwrite=overwrite) if processes.is_first else None

    def with_feasible_loss(vocabulary: Vocabulary) -> TrainingSettings:
        """Replace a default full softmax by a sampled one if the vocabulary is large."""
        too_many = settings.loss == "full" and given.get("loss") is None and len(vocabulary) > MAX_FULL_SOFTMAX_WORDS
        return replace(settings, loss="sampled") if too_many else settings

    def begin_fit() -> TrainingState:
        for_both = {"overlap": heldout_overlap(settings), "learning_rate": settings.learning_rate}
        vocabulary = _vocabulary(model, settings, progress)
        rate = given.get("learning_rate") or FIT_RATE
        state = _begin(
            model, replace(with_feasible_loss(vocabulary), frozen=True, learning_rate=rate), vocabulary, None, processes
        )
        state.notes |= {**(notes or {}), **for_both, "parent": f"{name}, with a new softmax"}
        return state

    def begin() -> TrainingState:
        parent = weights.load(folder / SOFTMAX) if needs_fit else model
        assert parent.vocabulary is not None
        vocabulary = vocabulary_of(parent.config, parent.vocabulary)
        state = _begin(parent, with_feasible_loss(vocabulary), vocabulary, parent.softmax(), processes)
        state.notes |= {**(notes or {}), "parent": name + (", with a softmax fitted to this text" if needs_fit else "")}
        state.notes["overlap"] = fit.state.notes["overlap"] if needs_fit else heldout_overlap(settings)
        if settings.heldout is not None:
            before = heldout_perplexity(state, state.settings)
            state.best = {"step": 0, **perplexity_values(before)}
            state.notes["before"] = before.mean
            say(f"held-out perplexity before: {before.mean:,.2f}")
        return state

    needs_other_kind = is_adaptive != (settings.loss == "adaptive")
    was_fitted = not old and (folder / SOFTMAX).exists()
    # rank 0 decides for all: other ranks may not see the run folder
    decided = processes.is_first and (was_fitted or needs_other_kind or _needs_fit(model, settings))
    [needs_fit] = processes.total(float(decided))
    if needs_fit:
        kind = f"{settings.loss} " if model.has_softmax and needs_other_kind else ""
        say(f"{name}: has no {kind}softmax over these words; fitting one first, with all other weights frozen")
        fit = open_run(folder / SOFTMAX, processes, begin_fit, resume=True, given=given, replaces=old)
        yield fit
        old = None
        # a resumed fit has settings that were not given now
        settings = replace(fit.state.settings, frozen=False, learning_rate=fit.state.notes["learning_rate"])
    yield open_run(folder, processes, begin, resume=True, given=given, replaces=old)


def _needs_fit(model: Model, settings: TrainingSettings) -> bool:
    return not model.has_softmax or model.vocabulary is None or _has_other_words(model, settings)


def _has_other_words(model: Model, settings: TrainingSettings) -> bool:
    return settings.vocabulary is not None and Vocabulary.from_file(settings.vocabulary).words != model.vocabulary


def _vocabulary(model: Model, settings: TrainingSettings, progress: Callable[[float], None]) -> Vocabulary:
    """Vocabulary of a new softmax: from a file, from the model, or the most frequent words of the text."""
    if model.vocabulary is None or _has_other_words(model, settings):
        return load_or_build_vocabulary(settings, progress)
    vocabulary = vocabulary_of(model.config, model.vocabulary)
    (require_marks if model.config.n_words else check_vocabulary)(vocabulary)
    return vocabulary


def _begin(
    model: Model, settings: TrainingSettings, vocabulary: Vocabulary, head: Head | None, processes: Processes
) -> TrainingState:
    config = replace(model.config, state="reset")  # training starts every sentence from a zero state
    return TrainingState.begin(
        config, settings, vocabulary, bilm=model.bilm, head=head, alphabet=model.alphabet, device=processes.device
    )


def _check_vocabulary_matches(model: Model, settings: TrainingSettings) -> None:
    """A model with a word table has one vocabulary for input and output; raise a ConfigError for another one."""
    if not model.config.n_words:
        return
    if model.vocabulary is None:
        raise ConfigError(f"{model.format} model: expected a vocabulary, found none; put its vocabulary.txt beside it")
    if _has_other_words(model, settings):
        raise ConfigError(
            f"--vocabulary: expected the words of the model, which reads the same words, found others in "
            f"{settings.vocabulary}; leave it out"
        )
