"""Our own format: a folder with `options.json`, `weights.safetensors`, and what else the model has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmokit.errors import ConfigError, FormatError, OutputError
from elmokit.nn.softmax import Head, assemble_head
from elmokit.weights import files
from elmokit.weights.files import decode, new_folder, read_card
from elmokit.weights.model import MixWeights, Model, assemble, first_line, read_config, require_finite

FORMAT = "native"
OPTIONS, WEIGHTS, SOFTMAX = "options.json", "weights.safetensors", "softmax.safetensors"
VOCABULARY, ALPHABET, CARD = "vocabulary.txt", "alphabet.json", "README.md"
FILES = (OPTIONS, WEIGHTS, SOFTMAX, VOCABULARY, ALPHABET, CARD)


def load(folder: Path) -> Model:
    """Read a model folder. Weights in float32 stay in the file until they are touched."""
    members = files.folder(folder)
    if OPTIONS not in members:
        raise FormatError(f"{folder}: expected {OPTIONS} beside {WEIGHTS}, found none")
    options = members[OPTIONS].json()
    config = read_config(options, members[OPTIONS].label)
    bilm = assemble(config, _read_tensors(folder / WEIGHTS), str(folder / WEIGHTS))
    vocabulary = None
    if VOCABULARY in members:
        # no stripping: a word of this file may be a space
        vocabulary = tuple(decode(members[VOCABULARY].read(), members[VOCABULARY]).split("\n")[:-1])
        if config.n_words not in (0, len(vocabulary)):
            raise FormatError(f"{folder / VOCABULARY}: expected {config.n_words} lines, found {len(vocabulary)}")
    alphabet = members[ALPHABET].json() if ALPHABET in members else None
    if config.char_cnn is not None and config.char_cnn.alphabet == "code points":
        _require_alphabet(alphabet, config.char_cnn.n_characters, folder / ALPHABET)
    card, licence = read_card(members)
    read_softmax = None
    if SOFTMAX in members:

        def read_softmax() -> Head:
            return _read_softmax(folder / SOFTMAX, config.lstm.projection_dim)

    return Model(
        config=config, bilm=bilm, format=FORMAT, vocabulary=vocabulary, alphabet=alphabet, licence=licence, card=card,
        mixes=_mixes(options, config.n_vectors, folder / OPTIONS), read_softmax=read_softmax,
        files=tuple(folder / name for name in FILES if name in members),
    )  # fmt: skip


def save(model: Model, folder: str | os.PathLike[str], *, half: bool = False, overwrite: bool = False) -> None:
    """Write a model folder, all of it or nothing. `half` stores 16-bit numbers, which load as float32."""
    with new_folder(folder, overwrite=overwrite) as fresh:
        _write_tensors(model.bilm.unpacked_state_dict(), fresh / WEIGHTS, half=half)
        if model.has_softmax:
            _write_tensors(model.softmax().state_dict(), fresh / SOFTMAX, half=half)
        write_side_files(model, fresh)


def write_side_files(model: Model, folder: Path) -> None:
    """Options, vocabulary, alphabet and model card: the small files, the same here and in the HDF5 format."""
    write_options(model, folder)
    write_card(model, folder)
    if model.vocabulary is not None:
        _write(folder / VOCABULARY, "".join(f"{word}\n" for word in model.vocabulary))
    if model.alphabet is not None:
        _write(folder / ALPHABET, json.dumps(model.alphabet, ensure_ascii=False, indent=0) + "\n")


def write_options(model: Model, folder: Path) -> None:
    """The shape of the model, and its scalar mixes."""
    options = model.config.to_options()
    if model.mixes:
        options["elmokit"]["mixes"] = [{"weights": list(mix.weights), "gamma": mix.gamma} for mix in model.mixes]
    _write(folder / OPTIONS, json.dumps(options, indent=2) + "\n")


def write_card(model: Model, folder: Path) -> None:
    """The model card, if there is any."""
    if model.card is not None or model.licence is not None:
        _write(folder / CARD, model.card if model.card is not None else f"---\nlicense: {model.licence}\n---\n")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_tensors(tensors: dict[str, Tensor], path: Path, *, half: bool) -> None:
    stored = {}
    for name, tensor in tensors.items():
        stored[name] = tensor.detach().cpu().to(torch.float16 if half else torch.float32).contiguous()
        if half and not torch.isfinite(stored[name].float().sum()):
            raise OutputError(f"{path.name}: {name} has numbers too large for half precision; save it in full")
    path.touch()
    mode = path.stat().st_mode  # what the user's umask allows; safetensors would leave it to the owner alone
    try:
        save_file(stored, path)
        path.chmod(mode)
    except SafetensorError as error:
        raise OutputError(f"{path.name}: cannot be written: {first_line(error)}") from None


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file, as finite float32."""
    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  (not a dict)
                tensors[name] = file.get_tensor(name)
                if tensors[name].dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
                    raise FormatError(f"{path}: expected floating-point numbers in {name}, found {tensors[name].dtype}")
                tensors[name] = tensors[name].float()
                require_finite(tensors[name], name, str(path))
    except (SafetensorError, OSError) as error:
        raise FormatError(
            f"{path}: expected a safetensors file, found {files.single(path).kind()} ({first_line(error)})"
        ) from None
    return tensors


def _read_softmax(path: Path, dim: int) -> Head:
    try:
        head = assemble_head(_read_tensors(path))
    except ConfigError as error:
        raise FormatError(f"{path}: {error}") from None
    if head.dim != dim:
        raise FormatError(f"{path}: expected a softmax of vectors of {dim}, as the options say, found {head.dim}")
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
        raise FormatError(f"{path}: expected {n_layers} weights in each of elmokit.mixes, one a layer")
    return mixes


def _require_alphabet(alphabet: object, n_characters: int, path: Path) -> None:
    fits = isinstance(alphabet, dict) and all(isinstance(i, int) and 0 <= i < n_characters for i in alphabet.values())
    if not fits:
        raise FormatError(f"{path}: expected an object of characters with their ids, all below {n_characters}")
