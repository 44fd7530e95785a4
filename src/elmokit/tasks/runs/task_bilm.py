"""The biLM of a task: frozen, or trained with the task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from elmokit.config import State
from elmokit.embed.elmo import Elmo, load_model
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, FormatError
from elmokit.nn.state_policy import POLICIES
from elmokit.tasks.shared.inputs import ElmoSource
from elmokit.tasks.shared.task_settings import InputSettings
from elmokit.weights import native
from elmokit.weights.model import Model


@dataclass(frozen=True)
class TaskBilm:
    """A loaded biLM and how the task uses it."""

    model: Model
    path: str | None  # source path; None is the packaged model
    fingerprint: str  # fingerprint of the weights before the task
    frozen: Elmo | None  # computes the layers of a frozen biLM
    reader: WordReader | None  # input ids of a fine-tuned biLM

    def source(self) -> ElmoSource:
        """Layer shape, and the biLM if it is fine-tuned, for `TextInputs`."""
        config = self.model.config
        if self.reader is None:
            return ElmoSource(config.n_vectors, config.vector_dim)
        return ElmoSource(config.n_vectors, config.vector_dim, self.model.bilm, self.reader.marks())

    def record(self) -> dict[str, Any]:
        """Description of the biLM for `settings.json`."""
        state = self.frozen.state if self.frozen is not None else "reset"
        return {"path": self.path, "fingerprint": self.fingerprint, "state": state, "trained": self.frozen is None}

    def save(self, folder: Path) -> None:
        """Save the current biLM, without its softmax, as a separate model."""
        card = "An ELMo biLM, fine-tuned on a task by `elmo task train --finetune-bilm`.\n"
        config = replace(self.model.config, state="reset")  # the state policy it was fine-tuned with
        model = replace(self.model, config=config, read_softmax=None, card=card, license=None)
        native.save(model, folder, overwrite=True)


def load_bilm(
    settings: InputSettings,
    path: str | None,
    *,
    fingerprint: str | None = None,
    device: torch.device | str = "cpu",
    owner: str = "the run",
    loaded: Elmo | None = None,
) -> TaskBilm | None:
    """Load the biLM of the settings from `path`, and check its `fingerprint` if given.

    device: of a frozen biLM; a fine-tuned one moves with the task network. owner: of the fingerprint, for errors.
    loaded: shared instead of loading a second copy, if it is the frozen biLM with this fingerprint.
    """
    if not settings.elmo:
        return None
    if loaded is not None and _same_use(loaded, settings) and fingerprint == loaded.model.fingerprint:
        return TaskBilm(loaded.model, path, fingerprint, loaded, None)
    model = load_model(path)
    if fingerprint is not None and model.fingerprint != fingerprint:
        raise FormatError(
            f"{path or 'the packaged model'}: expected the biLM that {owner} was made with ({fingerprint[:12]}...), "
            f"found another ({model.fingerprint[:12]}...); give the right one with --model"
        )
    found = model.fingerprint  # computed now: training and the engine change the representation of the weights
    if not settings.finetune_bilm:
        return TaskBilm(model, path, found, Elmo(model, state=_state(settings, model), device=str(device)), None)
    if settings.state not in (None, "reset"):
        raise ConfigError(
            f"--state: expected reset with --finetune-bilm, which trains from zero state, found {settings.state}"
        )
    for parameter in model.bilm.parameters():
        parameter.data = parameter.data.clone()  # weights may be in a read-only memory map
    model.bilm.requires_grad_(True)
    return TaskBilm(model, path, found, None, WordReader(model))


def _state(settings: InputSettings, model: Model) -> State:
    """State policy of a frozen biLM; never "carry" by default, as vectors would depend on the order of the data."""
    own: State = model.config.state if POLICIES[model.config.state].independent else "warm"
    return settings.state or own


def _same_use(loaded: Elmo, settings: InputSettings) -> bool:
    """Whether a loaded biLM gives the vectors that a task with these settings expects."""
    return not settings.finetune_bilm and loaded.dtype == "float32" and loaded.state == _state(settings, loaded.model)
