"""ELMoForManyLangs format: a folder with a word table, an alphabet of code points and two pickled state dicts."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from elmokit.config import LstmConfig, ModelConfig
from elmokit.errors import FormatError, OutputError
from elmokit.weights import table as layouts
from elmokit.weights import torch_layout
from elmokit.weights.files import MANY_LANGS_CONFIG, Member, Members, decode, new_model_folder, read_card, single
from elmokit.weights.model import Model, assemble
from elmokit.weights.native import write_card
from elmokit.weights.torch_layout import Names, read_state_dict, write_state_dict

FORMAT = "ELMoForManyLangs"
REQUIRED = ("encoder.pkl", "token_embedder.pkl")
MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
PUBLISHED_MARKS = {"<bos>": "<S>", "<eos>": "</S>", "<oov>": "<UNK>"}

NAMES = Names(
    words="word_emb_layer.embedding.weight",
    characters="char_emb_layer.embedding.weight",
    character_layout=layouts.AS_IS,
    convolution="convolutions.{}",
    highway="highways._layers.{}",
    projection="projection",
    lstm="{}_layer_{}",
)

# Settings that cannot be inferred from tensors, as in both architecture files of the project.
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
    if NAMES.characters not in tensors and NAMES.words in tensors:
        return _load_words(members, tensors, encoder, label)
    config = torch_layout.infer_config(
        tensors,
        NAMES,
        label,
        alphabet="code points",
        activation=embedder.get("activation", "relu"),
        max_characters=int(_number(embedder, "max_characters_per_token", members) or 50),
        cell_clip=_number(encoder, "cell_clip", members),
        proj_clip=_number(encoder, "proj_clip", members),
    )
    assert config.char_cnn is not None
    bilm = assemble(config, torch_layout.convert(tensors, config, NAMES, label), label)
    alphabet = _read_dictionary(members, "char.dic", config.char_cnn.n_characters)
    if missing := [mark for mark in MARKS if mark not in alphabet]:
        raise FormatError(f"{members['char.dic'].label}: expected {' '.join(MARKS)}, found no {' '.join(missing)}")
    vocabulary = None
    if config.n_words:
        words = {i: word for word, i in _read_dictionary(members, "word.dic", config.n_words).items()}
        vocabulary = tuple(words.get(i, "") for i in range(config.n_words))
    card, license = read_card(members)
    used = ("config.json", "char.dic", "word.dic", *REQUIRED)
    return Model(
        config=config,
        bilm=bilm,
        format=FORMAT,
        vocabulary=vocabulary,
        alphabet=alphabet,
        license=license,
        card=card,
        files=tuple(dict.fromkeys(members[name].path for name in used if name in members)),
    )


def _load_words(members: Members, tensors: dict[str, Tensor], encoder: dict[str, Any], label: str) -> Model:
    """Load a word-level model (`char_dim` 0); its projection is folded into the word table."""
    assert NAMES.words is not None
    first = f"{NAMES.lstm.format('forward', 0)}.state_projection.weight"
    weight, bias = (tensors.pop(f"{NAMES.projection}.{part}", None) for part in ("weight", "bias"))
    words = tensors[NAMES.words]
    if weight is None or bias is None or first not in tensors or words.shape[-1:] != weight.shape[-1:]:
        raise FormatError(f"{label}: expected a word table, its projection and an LSTM of matching sizes")
    tensors[NAMES.words] = torch.addmm(bias.float(), words.float(), weight.float().t())  # (n, D)
    dim, cells = tensors[first].shape
    counted = NAMES.lstm.format("forward", "{}") + ".input_linearity.weight"
    config = ModelConfig(
        lstm=LstmConfig(
            dim=cells,
            projection_dim=dim,
            n_layers=next(i for i in count() if counted.format(i) not in tensors),
            cell_clip=_number(encoder, "cell_clip", members),
            proj_clip=_number(encoder, "proj_clip", members),
        ),
        char_cnn=None,
        n_words=len(words),
        word_dim=dim,
        state="warm",
    )
    bilm = assemble(config, torch_layout.convert(tensors, config, NAMES, label), label)
    found = {i: word for word, i in _read_dictionary(members, "word.dic", config.n_words).items()}
    # word-level models use the published special tokens
    vocabulary = tuple(PUBLISHED_MARKS.get(word, word) for word in (found.get(i, "") for i in range(config.n_words)))
    card, license = read_card(members)
    files = tuple(dict.fromkeys(members[name].path for name in ("config.json", "word.dic", *REQUIRED)))
    return Model(
        config=config, bilm=bilm, format=FORMAT, vocabulary=vocabulary, license=license, card=card, files=files
    )


def save(model: Model, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model folder that the original code can read."""
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
    for name, tensor in layouts.write_table(table, model.bilm.state_dict()):
        part = encoder if name.startswith(("forward_layer_", "backward_layer_")) else embedder
        part[name] = tensor.detach().clone()
    lstm = config.lstm
    architecture = {
        "encoder": {
            "name": "elmo",
            "dim": lstm.dim,
            "projection_dim": lstm.projection_dim,
            "n_layers": lstm.n_layers,
            "cell_clip": lstm.cell_clip or 0,
            "proj_clip": lstm.proj_clip or 0,
        },
        "token_embedder": {
            "name": "cnn",
            "activation": chars.activation,
            "filters": chars.filters,
            "n_highway": chars.n_highway,
            "word_dim": config.word_dim,
            "char_dim": chars.embedding_dim,
            "max_characters_per_token": chars.max_characters,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }
    with new_model_folder(folder, overwrite=overwrite) as fresh:
        write_state_dict(encoder, fresh / "encoder.pkl")
        write_state_dict(embedder, fresh / "token_embedder.pkl")
        (fresh / "config.json").write_text(json.dumps(MANY_LANGS_CONFIG))
        (fresh / "architecture.json").write_text(json.dumps(architecture, indent=2))
        _write_dictionary(fresh / "char.dic", model.alphabet)
        if config.n_words and model.vocabulary is not None:  # otherwise the vocabulary belongs to the softmax only
            _write_dictionary(fresh / "word.dic", {word: i for i, word in enumerate(model.vocabulary) if word})
        write_card(model, fresh)


def _architecture(members: Members) -> dict[str, Any]:
    """Architecture from the file named in `config.json`, or the default one of the published models."""
    if "config.json" not in members:
        raise FormatError(f"{members[REQUIRED[0]].label}: expected config.json beside it, found none")
    arguments = members["config.json"].json()
    if not isinstance(arguments, dict):
        raise FormatError(f"{members['config.json'].label}: expected a JSON object, found {type(arguments).__name__}")
    if "encoder" in arguments:  # some copies contain the architecture itself
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
    """File at a relative path inside the folder, never outside."""
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
    return float(value) if value else None  # 0 means no clipping


def _read_dictionary(members: Members, name: str, n_rows: int) -> dict[str, int]:
    """Read `item<TAB>id` lines, stripped like in the original parser, so that an id alone means U+3000."""
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
