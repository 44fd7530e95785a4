"""Model folders of Hugging Face transformers, as `elmokit.integrations.transformers` writes them; read without it."""

from __future__ import annotations

import math
from pathlib import Path

from torch import Tensor

from elmokit.errors import FormatError
from elmokit.weights import files, native
from elmokit.weights.files import Members, read_card
from elmokit.weights.model import MixWeights, Model, assemble, read_config

FORMAT = "transformers"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
MODEL_TYPE = files.TRANSFORMERS_TYPE

_PREFIXES = ("", "elmo.")  # of a bare model, and of one with a classifier on top


def is_transformers(members: Members) -> bool:
    """Whether a folder has the files of such a model."""
    return CONFIG in members and WEIGHTS in members


def load(folder: Path) -> Model:
    """Read the biLM of a folder, fine-tuned or not; a classifier on top of it is left out."""
    members = files.folder(folder)
    content = members[CONFIG].json()
    if not isinstance(content, dict) or content.get("model_type") != MODEL_TYPE:
        found = content.get("model_type") if isinstance(content, dict) else type(content).__name__
        raise FormatError(f"{folder / CONFIG}: expected model_type {MODEL_TYPE!r}, found {found!r}")
    config = read_config(content.get("options"), members[CONFIG].label)
    tensors = native.read_float_tensors(folder / WEIGHTS)
    prefix = next((p for p in _PREFIXES if any(name.startswith(f"{p}bilm.") for name in tensors)), "")
    start = f"{prefix}bilm."
    network = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
    bilm = assemble(config, network, str(folder / WEIGHTS))
    vocabulary = native.read_vocabulary(members[native.VOCABULARY]) if native.VOCABULARY in members else None
    if vocabulary is not None and config.n_words not in (0, len(vocabulary)):
        raise FormatError(f"{folder / native.VOCABULARY}: expected {config.n_words} lines, found {len(vocabulary)}")
    card, license = read_card(members)
    return Model(
        config=config,
        bilm=bilm,
        format=FORMAT,
        vocabulary=vocabulary,
        alphabet=native.read_alphabet(members, config, folder),
        license=license,
        card=card,
        mixes=_mixes(tensors, f"{prefix}mix.", config.n_vectors, folder / WEIGHTS),
        files=tuple(
            folder / name
            for name in (CONFIG, WEIGHTS, native.VOCABULARY, native.ALPHABET, native.CARD)
            if name in members
        ),
    )


def _mixes(tensors: dict[str, Tensor], prefix: str, n_layers: int, path: Path) -> tuple[MixWeights, ...]:
    """The scalar mix, if it was trained."""
    scalars, gamma = tensors.get(f"{prefix}scalars"), tensors.get(f"{prefix}gamma")
    if scalars is None or gamma is None:
        return ()
    if scalars.shape != (n_layers,) or gamma.numel() != 1:
        raise FormatError(f"{path}: expected {n_layers} weights in {prefix}scalars, found {tuple(scalars.shape)}")
    mix = MixWeights(tuple(scalars.tolist()), float(gamma))
    untrained = math.isclose(mix.gamma, 1) and len(set(mix.weights)) == 1
    return () if untrained else (mix,)
