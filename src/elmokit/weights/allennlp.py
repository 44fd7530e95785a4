"""State dicts of AllenNLP's `Elmo`, alone or inside a task model."""

from __future__ import annotations

import os
import re

import torch
from torch import Tensor

from elmokit.errors import FormatError, OutputError
from elmokit.weights import table as layouts
from elmokit.weights import torch_layout
from elmokit.weights.files import Member, new_model_folder
from elmokit.weights.model import MixWeights, Model, assemble, read_config
from elmokit.weights.native import write_card, write_options
from elmokit.weights.torch_layout import Names, read_state_dict, write_state_dict

FORMAT = "AllenNLP state dict"
SUFFIXES = (".th", ".pt", ".pth", ".bin")
CHARACTERS = "_token_embedder._char_embedding_weights"


def names(root: str) -> Names:
    """Tensor names under `root`, the prefix of the biLM inside AllenNLP's Elmo (it normally ends in `_elmo_lstm.`)."""
    return Names(
        words=None,
        characters=root + CHARACTERS,
        character_layout=layouts.ZERO_PADDING_ROW,
        convolution=root + "_token_embedder.char_conv_{}",
        highway=root + "_token_embedder._highways._layers.{}",
        projection=root + "_token_embedder._projection",
        lstm=root + "_elmo_lstm.{}_layer_{}",
    )


def load(weights: Member, options: Member | None) -> Model:
    """Read a state dict. Without options the sizes are inferred from the tensors, with clips of 3 and relu."""
    tensors = read_state_dict(weights)
    roots = [name.removesuffix(CHARACTERS) for name in tensors if name.endswith(CHARACTERS)]
    if len(roots) != 1:
        found = f"{len(roots)} of them: {', '.join(roots)}" if roots else f"{', '.join(list(tensors)[:3])}, ..."
        raise FormatError(f"{weights.label}: expected one AllenNLP Elmo (a tensor ...{CHARACTERS}), found {found}")
    theirs = names(roots[0])
    if options is not None:
        config = read_config(options.json(), options.label)
    else:
        config = torch_layout.infer_config(tensors, theirs, weights.label, alphabet="bytes")
    mixes = _read_mixes(tensors, roots[0].removesuffix("_elmo_lstm."), config.n_vectors, weights.label)
    bilm = assemble(config, torch_layout.convert(tensors, config, theirs, weights.label), weights.label)
    used = [options.path] if options is not None else []
    return Model(config=config, bilm=bilm, format=FORMAT, mixes=mixes, files=(*used, weights.path))


def state_dict(model: Model) -> dict[str, Tensor]:
    """State dict with AllenNLP's names, for `Elmo(...).load_state_dict(...)`."""
    config = model.config
    published = config.char_cnn is not None and not config.n_words and config.char_cnn.alphabet == "bytes"
    if not (published and config.has_token_projection and config.lstm.has_projection and config.lstm.skip_connections):
        raise OutputError(
            "AllenNLP's Elmo: expected a model with byte characters, both projections and skip connections, found a "
            f"{model.format} one that differs; save it in the native format"
        )
    table = torch_layout.table(config, names("_elmo_lstm."))
    parameters = model.bilm.state_dict()
    theirs = {name: tensor.detach().clone() for name, tensor in layouts.write_table(table, parameters)}
    for n, mix in enumerate(model.mixes):
        theirs[f"scalar_mix_{n}.gamma"] = torch.tensor([mix.gamma])
        for k, weight in enumerate(mix.weights):
            theirs[f"scalar_mix_{n}.scalar_parameters.{k}"] = torch.tensor([weight])
    return theirs


def save(model: Model, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write `state_dict(model)` as `elmo.th`, with the options and the model card."""
    tensors = state_dict(model)
    with new_model_folder(folder, overwrite=overwrite) as fresh:
        write_state_dict(tensors, fresh / "elmo.th")
        write_options(model, fresh)
        write_card(model, fresh)


def _read_mixes(tensors: dict[str, Tensor], root: str, n_layers: int, label: str) -> tuple[MixWeights, ...]:
    """Scalar mixes of an `Elmo`, in order."""
    pattern = re.compile(re.escape(root) + r"scalar_mix_(\d+)\.gamma")
    mixes = []
    for n in sorted(int(match.group(1)) for match in map(pattern.fullmatch, tensors) if match):
        start = f"{root}scalar_mix_{n}."
        parts = [start + "gamma", *(f"{start}scalar_parameters.{k}" for k in range(n_layers))]
        if any(part not in tensors or tensors[part].numel() != 1 for part in parts):
            raise FormatError(
                f"{label}: expected gamma and {n_layers} scalar_parameters of one number each in {start[:-1]}"
            )
        gamma, *weights = (tensors.pop(part).item() for part in parts)
        mixes.append(MixWeights(tuple(weights), gamma))
    return tuple(mixes)
