"""The biLM of a task: frozen, or trained with the task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from elmokit.config import State
from elmokit.embed.elmo import Elmo, load_model
from elmokit.embed.words import WordReader
from elmokit.errors import ConfigError, FormatError
from elmokit.tasks.inputs import ElmoSource
from elmokit.tasks.settings import InputSettings
from elmokit.weights import native
from elmokit.weights.model import Model


@dataclass(frozen=True)
class TaskBilm:
    """A loaded biLM, and how the task uses it."""

    model: Model
    path: str | None  # where it is from; None is the packaged one
    fingerprint: str  # of its weights before the task
    frozen: Elmo | None  # computes the layers, unless they are trained
    reader: WordReader | None  # gives ids to a biLM that is trained

    def source(self) -> ElmoSource:
        """What the inputs of the task need to know."""
        config = self.model.config
        if self.reader is None:
            return ElmoSource(config.n_vectors, config.vector_dim)
        return ElmoSource(config.n_vectors, config.vector_dim, self.model.bilm, self.reader.marks())

    def record(self) -> dict[str, Any]:
        """What a run says about it."""
        state = self.frozen.state if self.frozen is not None else "reset"
        return {"path": self.path, "fingerprint": self.fingerprint, "state": state, "trained": self.frozen is None}

    def save(self, folder: Path) -> None:
        """Write the biLM as it is now, without its softmax, as a model of its own."""
        card = "An ELMo biLM, trained on with a task by `elmo task train --finetune-bilm`.\n"
        config = replace(self.model.config, state="reset")  # as it was trained
        model = replace(self.model, config=config, read_softmax=None, card=card, licence=None)
        native.save(model, folder, overwrite=True)


def load_bilm(
    settings: InputSettings, path: str | None, *, fingerprint: str | None = None, device: torch.device | str = "cpu"
) -> TaskBilm | None:
    """The biLM that the settings ask for, from `path`; a `fingerprint` is one that it must have.

    device: of a frozen one; one that is trained moves with the task's network.
    """
    if not settings.elmo:
        return None
    model = load_model(path)
    if fingerprint is not None and model.fingerprint != fingerprint:
        raise FormatError(
            f"{path or 'the packaged model'}: expected the biLM that the run was made with ({fingerprint[:12]}...), "
            f"found another ({model.fingerprint[:12]}...); give the right one with --model"
        )
    found = model.fingerprint  # taken now: training and the engine change the weights' form
    if not settings.finetune_bilm:
        # a state that is carried from sentence to sentence would make vectors depend on the order of the data
        own: State = "warm" if model.config.state == "carry" else model.config.state
        return TaskBilm(model, path, found, Elmo(model, state=settings.state or own, device=str(device)), None)
    if settings.state not in (None, "reset"):
        raise ConfigError(
            f"--state: expected reset with --finetune-bilm, which trains from zero state, found {settings.state}"
        )
    for parameter in model.bilm.parameters():
        parameter.data = parameter.data.clone()  # weights may lie in a file that is mapped for reading alone
    model.bilm.requires_grad_(True)
    return TaskBilm(model, path, found, None, WordReader(model))
