"""Native format: a folder with `options.json`, `weights.safetensors` and optional files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmokit.config import ModelConfig
from elmokit.disk.tensor_file import FLOATS, read_tensors, require_finite, save_plain
from elmokit.errors import ConfigError, FormatError, OutputError
from elmokit.nn.softmax import Head, assemble_head
from elmokit.weights import files
from elmokit.weights.files import check_word_count, decode, new_model_folder, read_card
from elmokit.weights.model import MixWeights, Model, assemble, read_config

FORMAT = "native"
OPTIONS, WEIGHTS, SOFTMAX = "options.json", "weights.safetensors", "softmax.safetensors"
VOCABULARY, ALPHABET, CARD = "vocabulary.txt", "alphabet.json", "README.md"
FILES = (OPTIONS, WEIGHTS, SOFTMAX, VOCABULARY, ALPHABET, CARD)


def load(folder: Path) -> Model:
    """Read a model folder. Float32 weights are memory-mapped."""
    members = files.folder(folder)
    if OPTIONS not in members:
        raise FormatError(f"{folder}: expected {OPTIONS} beside {WEIGHTS}, found none")
    options = members[OPTIONS].json()
    config = read_config(options, members[OPTIONS].label)
    bilm = assemble(config, read_float_tensors(folder / WEIGHTS), str(folder / WEIGHTS))
    vocabulary = None
    if VOCABULARY in members:
        vocabulary = read_vocabulary(members[VOCABULARY])
        if config.n_words not in (0, len(vocabulary)):
            raise FormatError(f"{folder / VOCABULARY}: expected {config.n_words} lines, found {len(vocabulary)}")
    alphabet = read_alphabet(members, config, folder)
    card, license = read_card(members)
    read_softmax = None
    if SOFTMAX in members:

        def read_softmax() -> Head:
            return _read_softmax(folder / SOFTMAX, config.lstm.projection_dim)

    return Model(
        config=config,
        bilm=bilm,
        format=FORMAT,
        vocabulary=vocabulary,
        alphabet=alphabet,
        license=license,
        card=card,
        mixes=_mixes(options, config.n_vectors, folder / OPTIONS),
        read_softmax=read_softmax,
        files=tuple(folder / name for name in FILES if name in members),
    )


def read_vocabulary(member: files.Member) -> tuple[str, ...]:
    """Read one word per line, not stripped: a word may be a space."""
    content = member.read()
    check_word_count(content, member.label)
    return tuple(decode(content, member).split("\n")[:-1])


def read_alphabet(members: files.Members, config: ModelConfig, folder: Path) -> dict[str, int] | None:
    """Read the ids of characters, which code-point models need."""
    alphabet: dict[str, int] | None = members[ALPHABET].json() if ALPHABET in members else None
    if config.char_cnn is not None and config.char_cnn.alphabet == "code points":
        _require_alphabet(alphabet, config.char_cnn.n_characters, folder / ALPHABET)
    return alphabet


def save(model: Model, folder: str | os.PathLike[str], *, half: bool = False, overwrite: bool = False) -> None:
    """Write a model folder atomically. `half` stores float16 weights, which load as float32."""
    with new_model_folder(folder, overwrite=overwrite) as fresh:
        _write_tensors(model.bilm.state_dict(), fresh / WEIGHTS, half=half)
        if model.has_softmax:
            _write_tensors(model.softmax().state_dict(), fresh / SOFTMAX, half=half)
        write_side_files(model, fresh)


def write_side_files(model: Model, folder: Path) -> None:
    """Write options, vocabulary, alphabet and model card, as in the HDF5 format."""
    write_options(model, folder)
    write_card(model, folder)
    if model.vocabulary is not None:
        _write(folder / VOCABULARY, "".join(f"{word}\n" for word in model.vocabulary))
    if model.alphabet is not None:
        _write(folder / ALPHABET, json.dumps(model.alphabet, ensure_ascii=False, indent=0) + "\n")


def write_options(model: Model, folder: Path) -> None:
    """Write the configuration and the scalar mixes."""
    options = model.config.to_options()
    if model.mixes:
        options["elmokit"]["mixes"] = [{"weights": list(mix.weights), "gamma": mix.gamma} for mix in model.mixes]
    _write(folder / OPTIONS, json.dumps(options, indent=2) + "\n")


def write_card(model: Model, folder: Path) -> None:
    """Write the model card, if any."""
    if model.card is not None or model.license is not None:
        _write(folder / CARD, model.card if model.card is not None else f"---\nlicense: {model.license}\n---\n")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_tensors(tensors: dict[str, Tensor], path: Path, *, half: bool) -> None:
    stored = {}
    for name, tensor in tensors.items():
        stored[name] = tensor.detach().cpu().to(torch.float16 if half else torch.float32).contiguous()
        if half and not torch.isfinite(stored[name].float().sum()):
            raise OutputError(f"{path.name}: {name} has numbers too large for half precision; save it in full")
    save_plain(stored, path)


def read_float_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a file as finite float32."""
    tensors, _ = read_tensors(path)
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            raise FormatError(f"{path}: expected floating-point numbers in {name}, found {tensor.dtype}")
        tensors[name] = tensor.float()
        require_finite(tensors[name], name, str(path))
    return tensors


def _read_softmax(path: Path, dim: int) -> Head:
    try:
        head = assemble_head(read_float_tensors(path))
    except ConfigError as error:
        raise FormatError(f"{path}: {error}") from None
    if head.dim != dim:
        raise FormatError(f"{path}: expected a softmax of dimension {dim}, as in the options, found {head.dim}")
    return head


def _mixes(options: Any, n_layers: int, path: Path) -> tuple[MixWeights, ...]:
    try:
        mixes = tuple(
            MixWeights(tuple(float(weight) for weight in mix["weights"]), float(mix["gamma"]))
            for mix in options.get("elmokit", {}).get("mixes", ())
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        raise FormatError(f"{path}: expected elmokit.mixes as a list of weights and gamma") from None
    if any(len(mix.weights) != n_layers for mix in mixes):
        raise FormatError(f"{path}: expected {n_layers} weights in each of elmokit.mixes, one per layer")
    return mixes


def _require_alphabet(alphabet: object, n_characters: int, path: Path) -> None:
    fits = isinstance(alphabet, dict) and all(isinstance(i, int) and 0 <= i < n_characters for i in alphabet.values())
    if not fits:
        raise FormatError(f"{path}: expected an object of characters with their ids, all below {n_characters}")
