"""ElmoEmbedder of AllenNLP 0.9: lists of words in, numpy arrays out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Literal, get_args

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.errors import ConfigError, InputError
from elmokit.integrations.allennlp.bilm import _ElmoBiLm
from elmokit.integrations.allennlp.ids import pad_characters, remove_sentence_boundaries

OutputFormat = Literal["all", "top", "average"]
BATCH_SIZE = 64


class ElmoEmbedder:
    """The layers of sentences, without any mix.

    As in AllenNLP the state goes on from call to call, so that the same sentence gets other vectors the next time.
    """

    def __init__(self, options_file: str | None = None, weight_file: str | None = None, cuda_device: int = -1) -> None:
        self.cuda_device = cuda_device
        self.elmo_bilm = _ElmoBiLm(options_file, weight_file)
        if cuda_device >= 0:
            self.elmo_bilm.cuda(cuda_device)

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Layers (B, L + 1, T, 2D), zero at padding, and mask (B, T) of tokenised sentences."""
        device = next(self.elmo_bilm.parameters()).device
        output = self.elmo_bilm(pad_characters(batch, self.elmo_bilm.max_characters).to(device))
        layers = [remove_sentence_boundaries(layer, output["mask"])[0] for layer in output["activations"]]
        return torch.stack(layers, dim=1), output["mask"][:, 2:]

    def embed_sentence(self, sentence: Sequence[str]) -> NDArray[np.float32]:
        """(L + 1, n, 2D) of one tokenised sentence."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """(L + 1, n, 2D) of each tokenised sentence. A single sentence without words is not read: the state stays."""
        if len(batch) == 1 and not batch[0]:
            return [np.zeros((self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim()), dtype=np.float32)]
        layers, _ = self.batch_to_embeddings(batch)
        return [part[:, : len(tokens)].detach().cpu().numpy() for part, tokens in zip(layers, batch, strict=True)]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = BATCH_SIZE
    ) -> Iterator[NDArray[np.float32]]:
        """(L + 1, n, 2D) of each tokenised sentence, in order, `batch_size` at a time."""
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self, input_file: IO[str], output_file_path: str, output_format: OutputFormat = "all",
        batch_size: int = BATCH_SIZE, forget_sentences: bool = False, use_sentence_keys: bool = False,
    ) -> None:  # fmt: skip
        """Write HDF5: for each line of white-space separated words (L + 1, n, 2D), or (n, 2D) of one combination.

        A key is the number of a line, or the line itself. `sentence_to_index` holds JSON with the number of each line.
        """
        if output_format not in get_args(OutputFormat):
            raise ConfigError(f"output_format: expected {', '.join(get_args(OutputFormat))}, found {output_format!r}")
        with input_file:
            lines = [line.strip() for line in input_file]
        if blank := [number for number, line in enumerate(lines) if not line]:
            raise InputError(f"input: expected words in every line, found none in lines {blank} (from 0); remove them")
        if use_sentence_keys and len(set(lines)) < len(lines):
            raise InputError("use_sentence_keys: expected every line once, found a line twice; use the numbers as keys")
        keys = lines if use_sentence_keys else [str(number) for number in range(len(lines))]
        target = Path(output_file_path)
        beside = target.with_name(f".{target.name}.{os.getpid()}")  # an older file stays until this one is complete
        try:
            with h5py.File(beside, "w") as file:
                for key, layers in zip(keys, self.embed_sentences(map(str.split, lines), batch_size), strict=True):
                    file[key] = {"all": layers, "top": layers[-1], "average": layers.mean(axis=0)}[output_format]
                if not (forget_sentences or use_sentence_keys):
                    numbers = json.dumps(dict(zip(lines, keys, strict=True)))  # of equal lines the last
                    file.create_dataset("sentence_to_index", data=[numbers], dtype=h5py.string_dtype())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
