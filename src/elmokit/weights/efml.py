"""ELMoForManyLangs: a folder with a word table, an alphabet of code points, and two pickled state dicts."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

from torch import Tensor

from elmokit.errors import FormatError, OutputError
from elmokit.weights import table as layouts
from elmokit.weights import torch_layout
from elmokit.weights.files import Member, Members, decode, new_folder, read_card, single
from elmokit.weights.model import Model, assemble
from elmokit.weights.native import write_card
from elmokit.weights.torch_layout import Names, read_state_dict, write_state_dict

FORMAT = "ELMoForManyLangs"
REQUIRED = ("encoder.pkl", "token_embedder.pkl")
MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")

NAMES = Names(
    words="word_emb_layer.embedding.weight",
    characters="char_emb_layer.embedding.weight",
    character_layout=layouts.AS_IS,
    convolution="convolutions.{}",
    highway="highways._layers.{}",
    projection="projection",
    lstm="{}_layer_{}",
)

# What tensors cannot tell, as in both architecture files that the project ships.
DEFAULT_ARCHITECTURE: dict[str, Any] = {
    "encoder": {"name": "elmo", "cell_clip": 3, "proj_clip": 3},
    "token_embedder": {"name": "cnn", "activation": "relu", "max_characters_per_token": 50},
}


def load(members: Members) -> Model:
    """Read a model folder."""
    architecture = _architecture(members)
    encoder, embedder = (architecture.get(part) for part in ("encoder", "token_embedder"))
    label = str(members["token_embedder.pkl"].container)
    for part, settings, supported in (("encoder", encoder, "elmo"), ("token_embedder", embedder, "cnn")):
        found = settings.get("name") if isinstance(settings, dict) else None
        if str(found).lower() != supported:
            raise FormatError(f"{label}: expected a {part} of kind {supported!r} (config.json), found {found!r}")
    assert isinstance(encoder, dict) and isinstance(embedder, dict)
    tensors = read_state_dict(members["token_embedder.pkl"]) | read_state_dict(members["encoder.pkl"])
    for name in tensors:
        if name.startswith("char_lstm."):
            raise FormatError(f"{label}: expected a token embedder of kind 'cnn', found one of kind 'lstm' ({name})")
    config = torch_layout.infer_config(
        tensors, NAMES, label, alphabet="code points",
        activation=embedder.get("activation", "relu"),
        max_characters=int(_number(embedder, "max_characters_per_token", members) or 50),
        cell_clip=_number(encoder, "cell_clip", members),
        proj_clip=_number(encoder, "proj_clip", members),
    )  # fmt: skip
    assert config.char_cnn is not None
    bilm = assemble(config, torch_layout.convert(tensors, config, NAMES, label), label)
    alphabet = _read_dictionary(members, "char.dic", config.char_cnn.n_characters)
    if missing := [mark for mark in MARKS if mark not in alphabet]:
        raise FormatError(f"{members['char.dic'].label}: expected {' '.join(MARKS)}, found no {' '.join(missing)}")
    vocabulary = None
    if config.n_words:
        words = {i: word for word, i in _read_dictionary(members, "word.dic", config.n_words).items()}
        vocabulary = tuple(words.get(i, "") for i in range(config.n_words))
    card, licence = read_card(members)
    used = ("config.json", "char.dic", "word.dic", *REQUIRED)
    return Model(
        config=config, bilm=bilm, format=FORMAT, vocabulary=vocabulary, alphabet=alphabet, licence=licence, card=card,
        files=tuple(dict.fromkeys(members[name].path for name in used if name in members)),
    )  # fmt: skip


def save(model: Model, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model folder that the original code reads."""
    config, chars = model.config, model.config.char_cnn
    if chars is None or chars.alphabet != "code points" or model.alphabet is None:
        raise OutputError(
            f"{folder}: ELMoForManyLangs: expected a model with an alphabet of code points, found a {model.format} one "
            "without; save it in the native format"
        )
    if not (config.has_token_projection and config.lstm.has_projection and config.lstm.skip_connections):
        raise OutputError(
            f"{folder}: ELMoForManyLangs: expected a model with both projections and skip connections, found one "
            "without; save it in the native format"
        )
    encoder: dict[str, Tensor] = {}
    embedder: dict[str, Tensor] = {}
    table = torch_layout.table(config, NAMES)
    for name, tensor in layouts.write_table(table, model.bilm.unpacked_state_dict()):
        part = encoder if name.startswith(("forward_layer_", "backward_layer_")) else embedder
        part[name] = tensor.detach().clone()
    lstm = config.lstm
    architecture = {
        "encoder": {
            "name": "elmo", "dim": lstm.dim, "projection_dim": lstm.projection_dim, "n_layers": lstm.n_layers,
            "cell_clip": lstm.cell_clip or 0, "proj_clip": lstm.proj_clip or 0,
        },
        "token_embedder": {
            "name": "cnn", "activation": chars.activation, "filters": chars.filters, "n_highway": chars.n_highway,
            "word_dim": config.word_dim, "char_dim": chars.embedding_dim,
            "max_characters_per_token": chars.max_characters,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }  # fmt: skip
    with new_folder(folder, overwrite=overwrite) as fresh:
        write_state_dict(encoder, fresh / "encoder.pkl")
        write_state_dict(embedder, fresh / "token_embedder.pkl")
        (fresh / "config.json").write_text(json.dumps({"config_path": "architecture.json"}))
        (fresh / "architecture.json").write_text(json.dumps(architecture, indent=2))
        _write_dictionary(fresh / "char.dic", model.alphabet)
        if config.n_words and model.vocabulary is not None:  # else its words are those of a softmax alone
            _write_dictionary(fresh / "word.dic", {word: i for i, word in enumerate(model.vocabulary) if word})
        write_card(model, fresh)


def _architecture(members: Members) -> dict[str, Any]:
    """The file that `config.json` points at, its namesake in the folder, or the one that all published models share."""
    if "config.json" not in members:
        raise FormatError(f"{members[REQUIRED[0]].label}: expected config.json beside it, found none")
    arguments = members["config.json"].json()
    if not isinstance(arguments, dict):
        raise FormatError(f"{members['config.json'].label}: expected a JSON object, found {type(arguments).__name__}")
    if "encoder" in arguments:  # some copies hold the architecture itself
        return arguments
    pointer = PurePosixPath(str(arguments.get("config_path", "")).replace("\\", "/"))
    member = _relative(members, pointer) or members.get(pointer.name)
    if member is None:
        return DEFAULT_ARCHITECTURE
    architecture = member.json()
    if not isinstance(architecture, dict):
        raise FormatError(f"{member.label}: expected a JSON object, found {type(architecture).__name__}")
    return architecture


def _relative(members: Members, pointer: PurePosixPath) -> Member | None:
    """The file at a relative path below the folder, never outside of it."""
    folder = members["config.json"].container
    if not folder.is_dir() or pointer.is_absolute() or ".." in pointer.parts:
        return None
    path = folder / pointer
    return single(path) if path.is_file() else None


def _number(settings: dict[str, Any], name: str, members: Members) -> float | None:
    value = settings.get(name)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (number and abs(value) < 2**31):
        raise FormatError(f"{members['config.json'].label}: expected a number as {name}, found {value!r}")
    return float(value) if value else None  # 0 is no clip


def _read_dictionary(members: Members, name: str, n_rows: int) -> dict[str, int]:
    """`item<TAB>id` lines. They are stripped as the original parser does it, so that a lone id means U+3000."""
    if name not in members:
        raise FormatError(f"{members['config.json'].label}: expected {name} beside it, found none")
    member = members[name]
    items: dict[str, int] = {}
    for number, line in enumerate(decode(member.read(), member).removesuffix("\n").split("\n"), start=1):
        *item, i = line.strip().split("\t")
        if len(item) > 1 or not (i.isascii() and i.isdigit() and len(i) < 20 and int(i) < n_rows):
            raise FormatError(
                f"{member.label}, line {number}: expected an item, a tab, an id below {n_rows}; found {line!r}"
            )
        items[item[0] if item else "\u3000"] = int(i)
    return items


def _write_dictionary(path: Path, items: dict[str, int]) -> None:
    for item, i in items.items():
        if item != "\u3000" and ({*"\r\n"} & {*item} or f"{item}\t{i}".strip().split("\t") != [item, str(i)]):
            raise OutputError(f"{path.name}: {item!r} would not be read back; save the model in the native format")
    path.write_text("".join(f"{item}\t{i}\n" for item, i in items.items()), encoding="utf-8", newline="\n")
