"""The published format: `options.json` and an HDF5 file, as bilm-tf writes them and AllenNLP reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from elmokit.config import ModelConfig
from elmokit.disk.hdf5_file import new_hdf5
from elmokit.disk.limits import limits
from elmokit.disk.tensor_file import require_finite
from elmokit.errors import FormatError, OutputError, first_line
from elmokit.nn.softmax import AdaptiveHead, Head, assemble_head
from elmokit.weights import table as layouts
from elmokit.weights.files import Member, Members, new_model_folder, read_card, read_words
from elmokit.weights.model import Model, assemble, mismatch, read_config
from elmokit.weights.native import write_side_files
from elmokit.weights.table import Entry, Shape

FORMAT = "bilm hdf5"
SUFFIXES = (".hdf5", ".h5")

Datasets = Mapping[str, Any]  # published name to h5py.Dataset


def table(config: ModelConfig) -> Iterator[Entry]:
    """Datasets of the weights file and their parameters."""
    d, c = config.lstm.projection_dim, config.lstm.dim
    if config.n_words:
        yield Entry("embedding", (config.n_words, config.word_dim), ("token_encoder.word_embedding",), layouts.AS_IS)
    if (chars := config.char_cnn) is not None:
        e, f = chars.embedding_dim, chars.n_filters
        yield Entry(
            "char_embed", (chars.n_characters - 1, e), ("token_encoder.char_embedding",), layouts.WITHOUT_PADDING_ROW
        )
        for i, (width, count) in enumerate(chars.filters):
            ours = f"token_encoder.convolutions.{i}"
            yield Entry(f"CNN/W_cnn_{i}", (1, width, e, count), (f"{ours}.weight",), layouts.RESHAPED)
            yield Entry(f"CNN/b_cnn_{i}", (count,), (f"{ours}.bias",), layouts.AS_IS)
        for k in range(chars.n_highway):
            for theirs, part in (("carry", "gate"), ("transform", "transform")):  # "carry" gates the transform
                ours = f"token_encoder.highways.{k}.{part}"
                yield Entry(f"CNN_high_{k}/W_{theirs}", (f, f), (f"{ours}.weight",), layouts.AS_IS)
                yield Entry(f"CNN_high_{k}/b_{theirs}", (f,), (f"{ours}_bias",), layouts.AS_IS)
        if config.has_token_projection:
            yield Entry("CNN_proj/W_proj", (f, d), ("token_encoder.projection.weight",), layouts.AS_IS)
            yield Entry("CNN_proj/b_proj", (d,), ("token_encoder.projection_bias",), layouts.AS_IS)
    for direction, side in enumerate(("forward", "backward")):
        for layer in range(config.lstm.n_layers):
            theirs = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            ours = f"{side}_layers.{layer}"
            yield Entry(
                f"{theirs}/W_0", (2 * d, 4 * c), (f"{ours}.input.weight", f"{ours}.state.weight"), layouts.TF_LSTM
            )
            yield Entry(f"{theirs}/B", (4 * c,), (f"{ours}.bias",), layouts.TF_LSTM_BIAS)
            if config.lstm.has_projection:
                yield Entry(f"{theirs}/W_P_0", (c, d), (f"{ours}.projection.weight",), layouts.AS_IS)


def published_name(name: str) -> str:
    """Published name of a dataset with the name of a TensorFlow variable, or of a single-layer model."""
    name = name.removeprefix("lm/")
    if not name.startswith("RNN_"):
        return name
    for old, new in (
        ("/rnn/", "/RNN/"),
        ("/multi_rnn_cell/", "/MultiRNNCell/"),
        ("/cell_", "/Cell"),
        ("/lstm_cell/", "/LSTMCell/"),
        ("/projection/kernel", "/W_P_0"),
        ("/kernel", "/W_0"),
        ("/bias", "/B"),
        ("/RNN/LSTMCell/", "/RNN/MultiRNNCell/Cell0/LSTMCell/"),  # a single layer has no MultiRNNCell
    ):
        name = name.replace(old, new)
    return name


@contextmanager
def open_datasets(member: Member) -> Iterator[Datasets]:
    """Datasets of an HDF5 file by their published names."""
    with member.open() as handle:
        try:
            file = h5py.File(handle, "r")
        except (OSError, RuntimeError, ValueError) as error:
            kind = member.kind()
            found = f"a truncated or damaged one ({first_line(error)})" if kind == "HDF5" else kind
            raise FormatError(f"{member.label}: expected an HDF5 file, found {found}") from None
        with file:
            found_datasets: dict[str, Any] = {}

            def visit(name: str | bytes, thing: object) -> None:  # bytes in a damaged file
                if isinstance(thing, h5py.Dataset) and isinstance(name, str):
                    found_datasets[published_name(name)] = thing

            try:
                file.visititems(visit)
            except (OSError, RuntimeError, ValueError, KeyError) as error:
                raise FormatError(
                    f"{member.label}: expected an HDF5 file, found a damaged one ({first_line(error)})"
                ) from None
            yield found_datasets


def holds_weights(member: Member) -> bool:
    """Whether an HDF5 file holds biLM weights, rather than a softmax, token embeddings or vectors."""
    with open_datasets(member) as datasets:
        return any(name.startswith("RNN_") for name in datasets)


def load(options: Member, weights: Member, *, beside: Members, token_embeddings: Member | None = None) -> Model:
    """Read a model; vocabulary, softmax and model card are looked up among the files `beside`.

    `token_embeddings` is a file of token vectors (V, D), one per word of the vocabulary, that replace the character
    CNN.
    """
    settings = options.json()
    with open_datasets(weights) as datasets:
        if not any(name.startswith("RNN_") for name in datasets):
            top = ", ".join(sorted({name.split("/")[0] for name in datasets})[:8]) or "nothing"
            raise FormatError(f"{weights.label}: expected biLM datasets (char_embed, CNN/..., RNN_0/...), found {top}")
        if token_embeddings is not None:
            with open_datasets(token_embeddings) as cached:
                config, tensors = _read(settings, options, datasets, cached, weights.label, token_embeddings.label)
        else:
            config, tensors = _read(settings, options, datasets, datasets, weights.label, weights.label)
        softmax = [weights] if "softmax/W" in datasets else _named(beside, r".*softmax.*\.(hdf5|h5)")

    def read_softmax() -> Head:
        return _read_softmax(companion(weights, softmax, "softmax_weights"), config.lstm.projection_dim)

    vocabulary = _vocabulary(beside)
    words = read_words(vocabulary) if vocabulary is not None else None
    if vocabulary is not None and words is not None and config.n_words not in (0, len(words)):
        raise FormatError(f"{vocabulary.label}: expected {config.n_words} words, one for each row, found {len(words)}")
    card, license = read_card(beside)
    used = (options, weights, token_embeddings, vocabulary, *softmax)
    return Model(
        config=config,
        bilm=assemble(config, tensors, weights.label),
        format=FORMAT,
        vocabulary=words,
        license=license,
        card=card,
        files=tuple(dict.fromkeys(member.path for member in used if member is not None)),
        read_softmax=read_softmax if softmax else None,
    )


def save(model: Model, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write `options.json` and `weights.hdf5`; if present, `softmax_weights.hdf5`, `vocabulary.txt`, `README.md`."""
    config = model.config
    if config.char_cnn is not None and (config.n_words or config.char_cnn.alphabet != "bytes"):
        raise OutputError(
            f"{folder}: a {model.format} model (word table and code points) has no HDF5 form; save it in the native one"
        )
    parameters = model.bilm.state_dict()
    with new_model_folder(folder, overwrite=overwrite) as fresh:
        head = model.softmax() if model.has_softmax else None
        if isinstance(head, AdaptiveHead):
            raise OutputError(
                f"{folder}: an adaptive softmax has no HDF5 form; save the model in native format, or use --no-softmax"
            )
        with new_hdf5(fresh / "weights.hdf5") as add:
            for name, tensor in layouts.write_table(table(config), parameters):
                add(name, tensor.detach().cpu().float().numpy())
        if head is not None:
            with new_hdf5(fresh / "softmax_weights.hdf5") as add:
                add("softmax/W", head.weight.detach().cpu().numpy())
                add("softmax/b", head.bias.detach().cpu().numpy())
        write_side_files(model, fresh)


def _read(
    settings: Any, options: Member, datasets: Datasets, words: Datasets, label: str, words_label: str
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Configuration and tensors of the model; `words` holds the word table, if any."""
    if words is not datasets and isinstance(settings, Mapping):  # token vectors replace the character CNN
        settings = {key: value for key, value in settings.items() if key != "char_cnn"}
    n_words = 0
    if isinstance(settings, Mapping) and "char_cnn" not in settings:
        if "embedding" not in words or len(words["embedding"].shape or ()) != 2:
            raise FormatError(
                f"{words_label}: expected a dataset embedding (V, D), as there is no char_cnn, found none"
            )
        n_words = words["embedding"].shape[0]
    config = read_config(settings, options.label, n_words=n_words)
    unused = {name for name in datasets if name.startswith(("RNN_", "CNN") if config.char_cnn else "RNN_")}

    def fetch(name: str, shape: Shape) -> Tensor:
        unused.discard(name)
        source = (words, words_label) if name == "embedding" else (datasets, label)
        return _read_dataset(*source, name, shape)

    tensors = layouts.read_table(table(config), fetch)
    if unused:
        name = min(unused)
        raise FormatError(
            f"{label}: expected no {name} with these options, found {datasets[name].shape}; do they belong together?"
        )
    return config, tensors


def _read_dataset(datasets: Datasets, label: str, name: str, shape: Shape) -> Tensor:
    """Read one dataset as float32, with checks of shape, dtype and finite values."""
    if name not in datasets:
        raise FormatError(f"{label}: expected dataset {name} of shape {shape}, found none")
    dataset = datasets[name]
    try:
        found, dtype, stored = dataset.shape, dataset.dtype, dataset.id.get_storage_size()
        elsewhere = dataset.external or dataset.is_virtual
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise FormatError(f"{label}: {name} cannot be read, the file is damaged ({first_line(error)})") from None
    if found != shape:
        raise FormatError(mismatch(label, name, shape, found))
    if dtype.kind != "f":
        raise FormatError(f"{label}: expected floating-point numbers in {name}, found {dtype}")
    if elsewhere:
        raise FormatError(f"{label}: expected the numbers of {name} in this file, found them in another; refused")
    if dataset.nbytes > max(limits().small, limits().ratio * stored):  # decompression bomb
        raise FormatError(f"{label}: {name} refused, as {stored} bytes claim to unpack to {dataset.nbytes}")
    try:
        array = np.empty(shape, dtype=np.float32)
        dataset.read_direct(array)
    except (OSError, RuntimeError, MemoryError, ValueError, TypeError) as error:
        raise FormatError(f"{label}: {name} cannot be read, the file is damaged ({first_line(error)})") from None
    tensor = torch.from_numpy(array)
    require_finite(tensor, name, label)
    return tensor


def _read_softmax(member: Member, dim: int) -> Head:
    with open_datasets(member) as datasets:
        if "softmax/W" not in datasets:
            raise FormatError(f"{member.label}: expected dataset softmax/W (V, {dim}), found none")
        rows = (datasets["softmax/W"].shape or ())[:1]
        weight = _read_dataset(datasets, member.label, "softmax/W", (*rows, dim))
        bias = _read_dataset(datasets, member.label, "softmax/b", rows)
    return assemble_head({"weight": weight, "bias": bias})


def companion(weights: Member, candidates: Sequence[Member], kind: str) -> Member:
    """Companion of a weights file: the file of matching name (`x_options.json`, `x_weights.hdf5`), or the only one."""
    stem = Path(weights.name).stem
    matching = stem.replace("weights", kind) if "weights" in stem else f"{stem}_{kind}"
    named = [candidate for candidate in candidates if Path(candidate.name).stem == matching]
    if len(named or candidates) == 1:
        return (named or candidates)[0]
    found = ", ".join(sorted(candidate.name for candidate in candidates)) or "none"
    raise FormatError(
        f"{weights.label}: expected one {kind} file beside it, found {found}; leave one there, or pass (options, "
        "weights) in Python"
    )


def _named(members: Members, pattern: str) -> list[Member]:
    return [member for name, member in members.items() if re.fullmatch(pattern, name, re.IGNORECASE)]


def _vocabulary(members: Members) -> Member | None:
    """Vocabulary file: `vocabulary.txt`, `vocab.txt`, or the only file with a similar name."""
    for name in ("vocabulary.txt", "vocab.txt", "vocab.txt.gz"):
        if name in members:
            return members[name]
    others = _named(members, r"vocab.*\.txt(\.gz)?")
    return others[0] if len(others) == 1 else None
