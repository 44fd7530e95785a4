"""Fine-tuning: a model goes on learning, on the text of one domain (Peters et al. 2018, section 3.4).

Published weights come without the softmax that they were trained with. For them one is fitted first, while the rest of
the model stays as it is; only then is the model changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from elmokit import weights
from elmokit.errors import ConfigError
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.presets import FINETUNE, FIT_RATE, MOST_WORDS
from elmokit.pretrain.run import Run, figures_of, heldout_perplexity, make_room, open_run, vocabulary_of
from elmokit.pretrain.settings import TrainingSettings
from elmokit.pretrain.state import TrainingState
from elmokit.pretrain.vocabulary import check_vocabulary
from elmokit.text.vocabulary import Vocabulary
from elmokit.weights import Model

SOFTMAX = "softmax"  # the folder, in that of the run, of the run that fits the softmax


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
    model = weights.load(name)
    _require_bytes(model)
    if processes.is_first and not resume:
        make_room(folder, overwrite=overwrite)
    settings = FINETUNE.changed(**given)

    def begin_fit() -> TrainingState:
        vocabulary = _vocabulary(model, settings, progress)
        rate = given.get("learning_rate") or FIT_RATE
        state = _begin(model, replace(settings, frozen=True, learning_rate=rate), vocabulary, None, processes)
        state.notes |= {**(notes or {}), "parent": f"{name}, all but the softmax, which is new"}
        return state

    def begin() -> TrainingState:
        parent = weights.load(folder / SOFTMAX) if needs_fit else model
        assert parent.vocabulary is not None
        state = _begin(parent, settings, Vocabulary(parent.vocabulary), parent.softmax(), processes)
        state.notes |= {**(notes or {}), "parent": name + (", with a softmax fitted to this text" if needs_fit else "")}
        if settings.heldout is not None:
            before = heldout_perplexity(state, state.settings)
            state.best = {"step": 0, **figures_of(before)}
            state.notes["before"] = before.mean
            say(f"held-out perplexity before: {before.mean:,.2f}")
        return state

    [needs_fit] = processes.total(float((folder / SOFTMAX).exists() or _needs_fit(model, settings)))
    if needs_fit:
        say(f"{name}: has no softmax over these words; fitting one first, with all else as it is")
        fit = open_run(folder / SOFTMAX, processes, begin_fit, resume=True, given=given)
        yield fit
        # of a run that goes on, the fit knows more than was given now
        rate = given.get("learning_rate") or FINETUNE.learning_rate
        settings = replace(fit.state.settings, frozen=False, learning_rate=rate)
    yield open_run(folder, processes, begin, resume=True, given=given)


def _needs_fit(model: Model, settings: TrainingSettings) -> bool:
    if model.read_softmax is None or model.vocabulary is None:
        return True
    return settings.vocabulary is not None and Vocabulary.from_file(settings.vocabulary).words != model.vocabulary


def _vocabulary(model: Model, settings: TrainingSettings, progress: Callable[[float], None]) -> Vocabulary:
    """The words of a new softmax: those of a file, those of the model, or the most frequent of the text."""
    if settings.vocabulary is None and model.vocabulary is not None:
        vocabulary = Vocabulary(model.vocabulary)
        check_vocabulary(vocabulary)
        return vocabulary
    return vocabulary_of(settings, progress)


def _begin(
    model: Model,
    settings: TrainingSettings,
    vocabulary: Vocabulary,
    softmax: tuple[Tensor, Tensor] | None,
    processes: Processes,
) -> TrainingState:
    if len(vocabulary) > MOST_WORDS and settings.loss == FINETUNE.loss:
        settings = replace(settings, loss="sampled")
    config = replace(model.config, state="reset")  # whatever it was: from now on every sentence starts from zero
    return TrainingState.begin(
        config, settings, vocabulary, bilm=model.bilm, softmax=softmax, device=processes.device
    )  # fmt: skip


def _require_bytes(model: Model) -> None:
    chars = model.config.char_cnn
    if chars is None or chars.alphabet != "bytes" or model.config.n_words:
        raise ConfigError(
            f"{model.format} model: expected one that reads the bytes of words, found another; only such can be trained"
        )
