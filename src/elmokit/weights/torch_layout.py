"""PyTorch weight layout shared by AllenNLP and ELMoForManyLangs; only names and word inputs differ."""

from __future__ import annotations

import itertools
import pickle
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from elmokit.config import N_BYTE_IDS, Activation, Alphabet, CharCnnConfig, LstmConfig, ModelConfig
from elmokit.disk.tensor_file import require_finite
from elmokit.errors import FormatError, OutputError, first_line
from elmokit.weights import table as layouts
from elmokit.weights.files import Member
from elmokit.weights.model import mismatch
from elmokit.weights.pickle_guard import check_pickle
from elmokit.weights.table import ArrayLayout, Entry, Shape


@dataclass(frozen=True)
class Names:
    """Tensor names of a format; `{}` is an index, in `lstm` direction and layer."""

    words: str | None  # word table, which a model may lack
    characters: str
    character_layout: ArrayLayout
    convolution: str
    highway: str
    projection: str
    lstm: str


def table(config: ModelConfig, names: Names) -> Iterator[Entry]:
    """Tensors of the state dict and their parameters."""
    d, c = config.lstm.projection_dim, config.lstm.dim
    if config.n_words and names.words is not None:
        yield Entry(names.words, (config.n_words, config.word_dim), ("token_encoder.word_embedding",), layouts.AS_IS)
    if (chars := config.char_cnn) is not None:
        e, f = chars.embedding_dim, chars.n_filters
        ours = "token_encoder.char_embedding"
        yield Entry(names.characters, (chars.n_characters, e), (ours,), names.character_layout)
        for i, (width, count) in enumerate(chars.filters):
            theirs, ours = names.convolution.format(i), f"token_encoder.convolutions.{i}"
            yield Entry(f"{theirs}.weight", (count, e, width), (f"{ours}.weight",), layouts.TORCH_CONVOLUTION)
            yield Entry(f"{theirs}.bias", (count,), (f"{ours}.bias",), layouts.AS_IS)
        for k in range(chars.n_highway):
            theirs, ours = names.highway.format(k), f"token_encoder.highways.{k}"
            yield Entry(
                f"{theirs}.weight",
                (2 * f, f),
                (f"{ours}.gate.weight", f"{ours}.transform.weight"),
                layouts.TORCH_HIGHWAY,
            )
            yield Entry(
                f"{theirs}.bias", (2 * f,), (f"{ours}.gate_bias", f"{ours}.transform_bias"), layouts.TORCH_HIGHWAY_BIAS
            )
    if config.has_token_projection:
        ours = "token_encoder.projection"
        yield Entry(f"{names.projection}.weight", (d, config.token_dim), (f"{ours}.weight",), layouts.TRANSPOSED)
        yield Entry(f"{names.projection}.bias", (d,), (f"{ours}_bias",), layouts.AS_IS)
    for side, layer in itertools.product(("forward", "backward"), range(config.lstm.n_layers)):
        theirs, ours = names.lstm.format(side, layer), f"{side}_layers.{layer}"
        yield Entry(f"{theirs}.input_linearity.weight", (4 * c, d), (f"{ours}.input.weight",), layouts.TORCH_LSTM)
        yield Entry(f"{theirs}.state_linearity.weight", (4 * c, d), (f"{ours}.state.weight",), layouts.TORCH_LSTM)
        yield Entry(f"{theirs}.state_linearity.bias", (4 * c,), (f"{ours}.bias",), layouts.TORCH_LSTM_BIAS)
        if config.lstm.has_projection:
            yield Entry(f"{theirs}.state_projection.weight", (d, c), (f"{ours}.projection.weight",), layouts.TRANSPOSED)


def infer_config(
    tensors: dict[str, Tensor],
    names: Names,
    label: str,
    *,
    alphabet: Alphabet,
    activation: Activation = "relu",
    max_characters: int = 50,
    cell_clip: float | None = 3.0,
    proj_clip: float | None = 3.0,
) -> ModelConfig:
    """Infer the configuration from tensor shapes, with given settings for the rest."""

    def shape(name: str, n_dims: int) -> Shape:
        if name not in tensors:
            raise FormatError(f"{label}: expected tensor {name} with {n_dims} dimensions, found none")
        found = tuple(tensors[name].shape)
        if len(found) != n_dims:
            raise FormatError(f"{label}: expected tensor {name} with {n_dims} dimensions, found {found}")
        return found

    def count(name: str) -> int:
        return next(i for i in itertools.count() if name.format(i) not in tensors)

    n_characters, embedding_dim = shape(names.characters, 2)
    filters = []
    for i in range(count(f"{names.convolution}.weight")):
        n, _, width = shape(names.convolution.format(i) + ".weight", 3)
        filters.append((width, n))
    n_words, word_dim = shape(names.words, 2) if names.words is not None and names.words in tensors else (0, 0)
    projection_dim, cells = shape(names.lstm.format("forward", 0) + ".state_projection.weight", 2)
    return ModelConfig(
        lstm=LstmConfig(
            dim=cells,
            projection_dim=projection_dim,
            cell_clip=cell_clip,
            proj_clip=proj_clip,
            skip_connections=True,
            n_layers=count(names.lstm.format("forward", "{}") + ".input_linearity.weight") or 1,
        ),
        char_cnn=CharCnnConfig(
            embedding_dim=embedding_dim,
            filters=tuple(filters),
            n_highway=count(f"{names.highway}.weight"),
            activation=activation,
            max_characters=max_characters,
            alphabet=alphabet,
            n_characters=N_BYTE_IDS if alphabet == "bytes" else n_characters,
        ),
        n_words=n_words,
        word_dim=word_dim,
        state="warm",
    )


def convert(tensors: dict[str, Tensor], config: ModelConfig, names: Names, label: str) -> dict[str, Tensor]:
    """Convert to our parameters. Consumes `tensors`, so that the model is never in memory twice."""

    def fetch(name: str, shape: Shape) -> Tensor:
        if name not in tensors:
            raise FormatError(f"{label}: expected tensor {name} of shape {shape}, found none")
        tensor = tensors.pop(name)
        if tuple(tensor.shape) != shape:
            raise FormatError(mismatch(label, name, shape, tuple(tensor.shape)))
        tensor = tensor.detach().float()
        require_finite(tensor, name, label)
        return tensor

    ours = layouts.read_table(table(config, names), fetch)
    parts = (names.convolution, names.highway, f"{names.projection}.", names.lstm)
    prefixes = tuple(part.split("{")[0] for part in parts)
    if unused := [name for name in tensors if name.startswith(prefixes)]:
        # for example a square projection, which neither the published network nor ours has
        raise FormatError(
            f"{label}: expected no {unused[0]} in a model of this shape, found {tuple(tensors[unused[0]].shape)}"
        )
    return ours


def read_state_dict(member: Member) -> dict[str, Tensor]:
    """Floating-point tensors of a pickled state dict. Pickles that contain code are rejected."""
    with member.open() as file:
        _require_plain(file, member.label)
        try:
            check_pickle(file, member.label)
            content = torch.load(file, map_location="cpu", weights_only=True)
        except FormatError:
            raise
        except pickle.UnpicklingError as error:
            raise FormatError(
                f"{member.label}: expected a pickle of tensors and nothing else; {_reason(error)}"
            ) from None
        except Exception as error:  # a damaged pickle can raise any error
            kind = member.kind().removeprefix("a ")
            raise FormatError(
                f"{member.label}: expected a PyTorch state dict, found a damaged {kind} ({first_line(error)})"
            ) from None
    if not isinstance(content, dict):
        raise FormatError(f"{member.label}: expected a state dict, found {type(content).__name__}")
    tensors = {}
    for name, tensor in content.items():
        if not (isinstance(name, str) and isinstance(tensor, Tensor) and tensor.is_floating_point()):
            continue
        if tensor.layout != torch.strided or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise FormatError(f"{member.label}: expected a dense tensor {name}, found a sparse or expanded one")
        tensors[name] = tensor
    if not tensors:
        raise FormatError(f"{member.label}: expected a state dict with tensors, found none")
    return tensors


def write_state_dict(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a state dict for `read_state_dict`."""
    try:
        torch.save(tensors, path)
    except RuntimeError as error:  # raised by torch for a failed write
        raise OutputError(f"{path.name}: cannot be written; is the disk full? ({first_line(error)})") from None


def _require_plain(file: BinaryIO, label: str) -> None:
    """Reject a zip with compressed members: torch.save compresses nothing, and torch.load has no size limit."""
    try:
        with zipfile.ZipFile(file) as archive:
            packed = any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):  # legacy format, or damaged
        packed = False
    if packed:
        raise FormatError(f"{label}: expected a file as torch.save writes it, found a compressed one; save it again")
    file.seek(0)


def _reason(error: pickle.UnpicklingError) -> str:
    """Reason for rejection, from the multi-line message of the safe unpickler."""
    for line in str(error).splitlines():
        if "Unsupported" in line or "GLOBAL" in line or "not an allowed" in line:
            return "it was refused: " + line.split("WeightsUnpickler error:")[-1].strip()[:160]
    return f"it was refused: {first_line(error)}"
