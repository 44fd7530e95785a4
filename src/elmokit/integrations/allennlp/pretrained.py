"""Weight files read into AllenNLP's names and layouts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmokit.config import LstmConfig, ModelConfig
from elmokit.disk.json_file import read_json
from elmokit.errors import ConfigError
from elmokit.integrations.published import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE, local_files
from elmokit.weights import allennlp as layout
from elmokit.weights import bilm_hdf5, torch_layout
from elmokit.weights import load as load_model
from elmokit.weights.files import single
from elmokit.weights.table import Shape, read_table, write_table

PathLike = str | os.PathLike[str] | None

_NAMES = layout.names("")  # as inside `_ElmoBiLm`


@dataclass(frozen=True)
class Pretrained:
    """biLM weights of a model that reads UTF-8 bytes."""

    config: ModelConfig
    options: Mapping[str, Any]  # original content of the options file
    weight_file: str
    tensors: Mapping[str, Tensor]  # by their names in the state dict of `_ElmoBiLm`

    def part(self, prefix: str) -> dict[str, Tensor]:
        """Tensors under a prefix, with the prefix removed."""
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}


def read(options_file: PathLike, weight_file: PathLike) -> Pretrained:
    """Read an options and a weight file, which may be URLs of published files; or a model folder alone."""
    if options_file is None and weight_file is None:
        raise ConfigError(
            "ELMo: expected options_file and weight_file, found neither; name them, or pass DEFAULT_OPTIONS_FILE and "
            'DEFAULT_WEIGHT_FILE for the published model, or options_file="base" for the small model of this package'
        )
    options, weights = local_files(options_file, weight_file)
    model = load_model((options, weights) if options and weights else options or weights)
    chars = model.config.char_cnn
    if chars is None or chars.alphabet != "bytes" or model.config.n_words:
        raise ConfigError(f"AllenNLP's ELMo: expected a model of UTF-8 bytes, found {model.format}; use elmokit.Elmo")
    return Pretrained(
        config=model.config,
        options=_options(options) or model.config.to_options(),
        weight_file=str(weights or options),
        tensors=dict(write_table(torch_layout.table(model.config, _NAMES), model.bilm.state_dict())),
    )


def read_lstms(weight_file: PathLike, lstm: LstmConfig) -> dict[str, Tensor]:
    """LSTM weights of a published HDF5 file, by their names in the state dict of `ElmoLstm`."""
    (path,) = local_files(weight_file)
    if path is None or not Path(path).is_file():
        raise ConfigError(f"weight_file: expected a published HDF5 file, found {weight_file}")
    config = ModelConfig(lstm=lstm, char_cnn=None, n_words=1, word_dim=lstm.projection_dim)
    with bilm_hdf5.open_datasets(single(Path(path))) as datasets:

        def fetch(name: str, shape: Shape) -> Tensor:
            found = datasets[name].shape if name in datasets else "nothing"
            if found != shape:
                raise ConfigError(f"{path}: expected {name} of shape {shape}, found {found}")
            return torch.from_numpy(datasets[name][...].astype("float32"))

        entries = [entry for entry in bilm_hdf5.table(config) if entry.name.startswith("RNN_")]
        ours = read_table(entries, fetch)
    theirs = [entry for entry in torch_layout.table(config, _NAMES) if entry.name.startswith("_elmo_lstm.")]
    return {name.removeprefix("_elmo_lstm."): tensor for name, tensor in write_table(theirs, ours)}


def _options(path: str | None) -> dict[str, Any] | None:
    if path is None or not Path(path).is_file() or not path.lower().endswith(".json"):
        return None
    content = read_json(Path(path))
    shape = content.get("char_cnn") if isinstance(content, dict) else None
    return content if isinstance(shape, dict) and "filters" in shape else None


__all__ = ["DEFAULT_OPTIONS_FILE", "DEFAULT_WEIGHT_FILE", "PathLike", "Pretrained", "read", "read_lstms"]
