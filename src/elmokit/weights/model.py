"""Loaded model: network, vocabulary and origin."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError, FormatError, first_line
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.softmax import Head


@dataclass(frozen=True)
class MixWeights:
    """Scalar mix stored in a file: ELMo = gamma * sum_j softmax(weights)_j h_j."""

    weights: tuple[float, ...]  # L + 1 numbers, before the softmax
    gamma: float


@dataclass(frozen=True)
class Origin:
    """Argument of `load`, with absolute paths, to load the same model again."""

    name: str | tuple[str, ...] | None  # absolute paths, or the name of a packaged model; None is the default one

    def __str__(self) -> str:
        names = (self.name,) if isinstance(self.name, str) else self.name or ("the packaged model",)
        return ", ".join(names)


@dataclass
class Model:
    """A biLM with its vocabulary, softmax and metadata."""

    config: ModelConfig
    bilm: BiLM
    format: str = "memory"  # source format, such as "native" or "bilm hdf5": `FORMAT` of a file in `weights/`
    vocabulary: tuple[str, ...] | None = None  # words in id order; "" where an id has no word
    alphabet: dict[str, int] | None = None  # character or special token to id, for code-point models
    license: str | None = None  # from the model card
    card: str | None = None  # the model card, Markdown
    mixes: tuple[MixWeights, ...] = ()  # scalar mixes that came with the weights
    files: tuple[Path, ...] = ()  # files read, or to be read for the softmax
    read_softmax: Callable[[], Head] | None = None  # reads the softmax file; None without softmax
    origin: Origin | None = None  # None for a model created in memory

    @property
    def short_name(self) -> str:
        """Name of the folder that it was read from, ko for a package elmokit_ko; without files, the format."""
        for path in self.files:
            return (path.parent.name or path.name).removeprefix("elmokit_")
        return self.format

    @property
    def has_softmax(self) -> bool:
        """Whether the model has an output layer."""
        return self.read_softmax is not None

    def softmax(self) -> Head:
        """Read the output layer over the vocabulary; raises a ConfigError if the model has none."""
        if self.read_softmax is None:
            raise ConfigError(
                f"{self.format} model: expected a softmax for word probabilities, found none; fit one with "
                "elmo finetune"
            )
        head = self.read_softmax()
        if self.vocabulary is not None and len(self.vocabulary) != head.n_words:
            raise FormatError(
                f"softmax: expected {len(self.vocabulary)} rows, one per word of the vocabulary, found {head.n_words}"
            )
        return optimize_(head)

    @property
    def parameter_count(self) -> int:
        """Number of trainable parameters, without the zero row for padding."""
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in BiLM(config=self.config).parameters())
        chars = self.config.char_cnn
        return count - (chars.embedding_dim if chars is not None and chars.alphabet == "bytes" else 0)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of configuration, weights, vocabulary of the word table and alphabet, without the state policy.

        Independent of the file format. Computed from float32 weights at first use and cached: access it before
        quantization or further training.
        """
        options = self.config.to_options()
        shape = {"lstm": options["lstm"], "char_cnn": options.get("char_cnn"), "n_words": self.config.n_words}
        words = self.vocabulary if self.config.n_words else None
        digest = hashlib.sha256(json.dumps([shape, words, self.alphabet], sort_keys=True).encode())
        for name, tensor in sorted(self.bilm.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().data)
        return digest.hexdigest()


def read_config(options: Any, label: str, *, n_words: int = 0) -> ModelConfig:
    """Configuration from options; `label` names the file in errors."""
    try:
        return ModelConfig.from_options(options, n_words=n_words)
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from None


def assemble(config: ModelConfig, tensors: Mapping[str, Tensor], label: str) -> BiLM:
    """Build the network from tensors, without initialization or copies.

    `tensors`: float32, with the names of `BiLM.state_dict()`. `label` names the file in errors.
    """
    depth = max(config.lstm.n_layers, config.char_cnn.n_highway if config.char_cnn else 0)
    if depth > len(tensors):  # reject absurd options before building a network
        raise FormatError(f"{label}: expected weights of {depth} layers, found {len(tensors)} tensors")
    try:
        with torch.device("meta"):
            bilm = BiLM(config=config)
    except (RuntimeError, TypeError) as error:  # sizes beyond the limits of tensors, or of their numbers
        raise FormatError(f"{label}: expected sizes that fit into memory, found {first_line(error)}") from None
    wanted = bilm.state_dict()
    for name, expected in wanted.items():
        if name not in tensors:
            raise FormatError(f"{label}: expected tensor {name} of shape {tuple(expected.shape)}, found none")
        if tensors[name].shape != expected.shape:
            raise FormatError(mismatch(label, name, tuple(expected.shape), tuple(tensors[name].shape)))
    for name in sorted(tensors.keys() - wanted.keys()):
        if name.startswith(("token_encoder.", "forward_layers.", "backward_layers.")):  # a layer would be ignored
            raise FormatError(
                f"{label}: expected no {name} with these options, found {tuple(tensors[name].shape)}; do they belong "
                "together?"
            )
    bilm.load_state_dict({name: tensors[name] for name in wanted}, assign=True)
    return optimize_(bilm.eval())


def mismatch(label: str, name: str, expected: tuple[int, ...], actual: tuple[int, ...]) -> str:
    """Message for a tensor whose shape differs from the options."""
    return f"{label}: expected {name} of shape {expected}, found {actual}; these options belong to other weights"
