"""A loaded model: the network, its words, and where it came from."""

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
from elmokit.errors import ConfigError, FormatError
from elmokit.nn.bilm import BiLM
from elmokit.nn.softmax import Head


@dataclass(frozen=True)
class MixWeights:
    """One scalar mix that a file held: ELMo = gamma * sum_j softmax(weights)_j h_j."""

    weights: tuple[float, ...]  # L + 1 numbers, before the softmax
    gamma: float


@dataclass
class Model:
    """A biLM with everything that its files say about it."""

    config: ModelConfig
    bilm: BiLM
    format: str = "memory"  # where it came from: "native", "bilm hdf5", "ELMoForManyLangs", "AllenNLP state dict"
    vocabulary: tuple[str, ...] | None = None  # words in id order; "" where an id has no word
    alphabet: dict[str, int] | None = None  # character (or mark) to id, where characters are code points
    licence: str | None = None  # as the model card names it
    card: str | None = None  # the model card, Markdown
    mixes: tuple[MixWeights, ...] = ()  # scalar mixes that came with the weights
    files: tuple[Path, ...] = ()  # files that were read, or will be for the softmax
    read_softmax: Callable[[], Head] | None = None  # reads the softmax file; None is none

    @property
    def has_softmax(self) -> bool:
        """Whether the model can give words probabilities."""
        return self.read_softmax is not None

    def softmax(self) -> Head:
        """The output layer over the vocabulary, read now. A ConfigError where the model has none."""
        if self.read_softmax is None:
            raise ConfigError(
                f"{self.format} model: expected a softmax, to give words probabilities, found none; fit one with "
                "elmo finetune"
            )
        head = self.read_softmax()
        if self.vocabulary is not None and len(self.vocabulary) != head.n_words:
            raise FormatError(
                f"softmax: expected {len(self.vocabulary)} rows, as the vocabulary has words, found {head.n_words}"
            )
        return head

    @property
    def parameter_count(self) -> int:
        """Trainable numbers of the network; the zero row that stands for padding is none."""
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in BiLM(config=self.config).parameters())
        chars = self.config.char_cnn
        return count - (chars.embedding_dim if chars is not None and chars.alphabet == "bytes" else 0)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides a word's vectors, but for the state policy: shape, weights, and what gives ids.

        The same network has the same fingerprint in whichever format it came. Computed at first use and then kept, from
        float32 weights: ask for it before turning them into 8 bits or training on.
        """
        options = self.config.to_options()
        shape = {"lstm": options["lstm"], "char_cnn": options.get("char_cnn"), "n_words": self.config.n_words}
        words = self.vocabulary if self.config.n_words else None
        digest = hashlib.sha256(json.dumps([shape, words, self.alphabet], sort_keys=True).encode())
        for name, tensor in sorted(self.bilm.unpacked_state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().data)
        return digest.hexdigest()


def read_config(options: Any, label: str, *, n_words: int = 0) -> ModelConfig:
    """The shape of a model by its options; `label` says in errors which file they are from."""
    try:
        return ModelConfig.from_options(options, n_words=n_words)
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from None


def assemble(config: ModelConfig, tensors: Mapping[str, Tensor], label: str) -> BiLM:
    """The network around tensors that were already read: nothing is initialised, nothing copied.

    `tensors`: float32, under the names of `BiLM.state_dict()`. `label` says in errors which file they are from.
    """
    depth = max(config.lstm.n_layers, config.char_cnn.n_highway if config.char_cnn else 0)
    if depth > len(tensors):  # also stops absurd options before they build a network
        raise FormatError(f"{label}: expected weights of {depth} layers, found {len(tensors)} tensors")
    try:
        with torch.device("meta"):
            bilm = BiLM(config=config)
    except RuntimeError as error:  # sizes past what a tensor can have
        raise FormatError(f"{label}: expected sizes that fit into memory, found {first_line(error)}") from None
    wanted = bilm.state_dict()
    for name, expected in wanted.items():
        if name not in tensors:
            raise FormatError(f"{label}: expected tensor {name} of shape {tuple(expected.shape)}, found none")
        if tensors[name].shape != expected.shape:
            raise FormatError(mismatch(label, name, tuple(expected.shape), tuple(tensors[name].shape)))
    for name in sorted(tensors.keys() - wanted.keys()):
        if name.startswith(("token_encoder.", "forward_layers.", "backward_layers.")):  # a layer would go unread
            raise FormatError(
                f"{label}: expected no {name} with these options, found {tuple(tensors[name].shape)}; do they belong "
                "together?"
            )
    bilm.load_state_dict({name: tensors[name] for name in wanted}, assign=True)
    return bilm.eval()


def require_finite(tensor: Tensor, name: str, label: str) -> None:
    """Refuse NaN and infinity, and say where. One sum decides, so that no temporary of the tensor's size is made."""
    if torch.isfinite(tensor.sum()):
        return
    rows = tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
    for i, row in enumerate(rows):  # finite numbers may still have an infinite sum
        bad = torch.isfinite(row).logical_not().nonzero()
        if len(bad):
            value = row[bad[0, 0]].item()
            raise FormatError(f"{label}: expected finite numbers in {name}, found {value} in row {i}")


def mismatch(label: str, name: str, expected: tuple[int, ...], actual: tuple[int, ...]) -> str:
    """The message for a tensor of another shape than the options say."""
    return f"{label}: expected {name} of shape {expected}, found {actual}; these options belong to other weights"


def first_line(error: BaseException) -> str:
    """What an error of a library says, cut to one line."""
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
