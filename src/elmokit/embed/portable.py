"""An `Elmo` as data, for pickle, `copy.deepcopy`, multiprocessing, joblib and data loaders.

A model that was loaded from files is pickled as their path, and its fingerprint is checked on loading; one that was
created in memory is pickled with its weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import ModelConfig, State
from elmokit.errors import ConfigError, FormatError
from elmokit.nn.softmax import assemble_head
from elmokit.weights.locate import load
from elmokit.weights.model import MixWeights, Model, Origin, assemble

Dtype = Literal["float32", "float16", "int8"]


@dataclass(frozen=True)
class PortableModel:
    """Weights and metadata of a model that has no files."""

    config: ModelConfig
    tensors: dict[str, Tensor]
    softmax: dict[str, Tensor] | None
    format: str
    vocabulary: tuple[str, ...] | None
    alphabet: dict[str, int] | None
    license: str | None
    card: str | None
    mixes: tuple[MixWeights, ...]


@dataclass(frozen=True)
class PortableElmo:
    """Everything needed to rebuild an `Elmo`."""

    state: State
    dtype: Dtype
    device: str
    fingerprint: str | None  # of the model in the files
    origin: Origin | None  # the files
    model: PortableModel | None  # where there are none
    carried: list[NDArray[np.floating]] | None  # with state="carry": initial state of the next sentence


def to_portable(
    model: Model, *, state: State, dtype: Dtype, device: str, carried: list[NDArray[np.floating]] | None
) -> PortableElmo:
    """Parts of an `Elmo`; a model from files is represented by their path."""
    from_files = model.origin is not None
    return PortableElmo(
        state,
        dtype,
        device,
        model.fingerprint if from_files else None,
        model.origin,
        None if from_files else _portable_model(model, dtype),
        carried,
    )


def portable_model(parts: PortableElmo) -> Model:
    """The model of these parts, read from its files if it has any."""
    if parts.model is not None:
        return _model(parts.model)
    assert parts.origin is not None
    model = load(parts.origin.name)
    if model.fingerprint != parts.fingerprint:
        raise FormatError(f"{parts.origin}: expected the model that was pickled, found another; it has changed")
    return model


def pack_model(model: Model) -> PortableModel:
    """Weights and vocabulary of a model, without its softmax, for machines that do not have its files."""
    return _portable_model(replace(model, read_softmax=None), "float32")


def unpack_model(parts: PortableModel) -> Model:
    """The inverse of `pack_model`."""
    return _model(parts)


def _portable_model(model: Model, dtype: Dtype) -> PortableModel:
    if dtype == "int8":
        raise ConfigError(
            "expected a model loaded from files, found one created in memory, whose 8-bit weights cannot be converted "
            "back; save the float32 model with save_pretrained, and load it from there"
        )
    head = model.softmax() if model.has_softmax else None
    tensors = {name: tensor.detach().cpu().float() for name, tensor in model.bilm.state_dict().items()}
    softmax = None if head is None else {name: tensor.detach().cpu() for name, tensor in head.state_dict().items()}
    return PortableModel(
        model.config,
        tensors,
        softmax,
        model.format,
        model.vocabulary,
        model.alphabet,
        model.license,
        model.card,
        model.mixes,
    )


def _model(parts: PortableModel) -> Model:
    softmax = parts.softmax
    return Model(
        config=parts.config,
        bilm=assemble(parts.config, parts.tensors, "pickled model"),
        format=parts.format,
        vocabulary=parts.vocabulary,
        alphabet=parts.alphabet,
        license=parts.license,
        card=parts.card,
        mixes=parts.mixes,
        read_softmax=None if softmax is None else lambda: assemble_head(softmax),
    )
