"""ElmoEmbedder of AllenNLP 0.9: lists of words in, numpy arrays out."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, get_args

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.disk.whole import new_file
from elmokit.errors import ConfigError, InputError
from elmokit.integrations.allennlp.bilm import _ElmoBiLm
from elmokit.integrations.allennlp.indexer import ELMoTokenCharactersIndexer, pad_characters
from elmokit.integrations.allennlp.pretrained import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE, PathLike
from elmokit.integrations.allennlp.util import remove_sentence_boundaries

OutputFormat = Literal["all", "top", "average"]
DEFAULT_BATCH_SIZE = 64

logger = logging.getLogger(__name__)


def empty_embedding() -> NDArray[Any]:
    """Output of AllenNLP for an empty sentence, with its fixed shape."""
    return np.zeros((3, 0, 1024))


class ElmoEmbedder:
    """All layers of sentences, without a scalar mix.

    As in AllenNLP the state is carried from call to call, so that the same sentence gets other vectors the next time.
    """

    def __init__(
        self,
        options_file: PathLike = DEFAULT_OPTIONS_FILE,
        weight_file: PathLike = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
    ) -> None:
        self.indexer = ELMoTokenCharactersIndexer()
        self.cuda_device = cuda_device
        self.elmo_bilm = _ElmoBiLm(options_file, weight_file)
        if cuda_device >= 0:
            self.elmo_bilm.cuda(cuda_device)

    def batch_to_embeddings(self, batch: Iterable[Iterable[str]]) -> tuple[Tensor, Tensor]:
        """Layers (B, L + 1, T, 2D), zero at padding, and mask (B, T) of tokenized sentences."""
        width = self.elmo_bilm._token_embedder.max_characters
        ids = pad_characters([list(sentence) for sentence in batch], width)
        output = self.elmo_bilm(ids.to(next(self.elmo_bilm.parameters()).device))
        removed = [remove_sentence_boundaries(layer, output["mask"]) for layer in output["activations"]]
        return torch.stack([layer for layer, _ in removed], dim=1), removed[0][1]

    def embed_sentence(self, sentence: Sequence[str]) -> NDArray[Any]:
        """(L + 1, n, 2D) of one tokenized sentence."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[NDArray[Any]]:
        """(L + 1, n, 2D) of each tokenized sentence. A single empty sentence leaves the state unchanged."""
        sentences = [list(sentence) for sentence in batch]
        if sentences == [[]]:
            return [empty_embedding()]
        layers, _ = self.batch_to_embeddings(sentences)
        return [
            part[:, : len(words)].detach().cpu().numpy() if words else empty_embedding()
            for part, words in zip(layers, sentences, strict=True)
        ]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[NDArray[Any]]:
        """(L + 1, n, 2D) of each tokenized sentence, in order, `batch_size` at a time."""
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str,
        output_format: OutputFormat = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write HDF5: for each line of white-space separated words (L + 1, n, 2D), or (n, 2D) of one combination.

        A key is the number of a line, or the line itself. `sentence_to_index` holds JSON with the number of each line.
        """
        if output_format not in get_args(OutputFormat):
            raise ConfigError(f"output_format: expected {', '.join(get_args(OutputFormat))}, found {output_format!r}")
        with input_file:
            lines = [line.strip() for line in input_file]
        if blank := [number for number, line in enumerate(lines) if not line]:
            raise InputError(f"input: expected words in every line, found none in lines {blank} (from 0); remove them")
        if use_sentence_keys:
            logger.warning("use_sentence_keys: a slash in a sentence makes groups in the HDF5 file")
            if len(set(lines)) < len(lines):
                raise InputError("use_sentence_keys: expected every line once, found a line twice; use numbers as keys")
        keys = lines if use_sentence_keys else [str(number) for number in range(len(lines))]
        target = Path(output_file_path)
        # an existing file is kept until this one is complete
        with new_file(target) as fresh, h5py.File(fresh, "w") as file, torch.no_grad():
            for key, layers in zip(keys, self.embed_sentences(map(str.split, lines), batch_size), strict=True):
                output = {"all": layers, "top": layers[-1], "average": layers.mean(axis=0)}[output_format]
                file.create_dataset(key, data=output, dtype="float32")
            if not (forget_sentences or use_sentence_keys):
                numbers = json.dumps(dict(zip(lines, keys, strict=True)))  # duplicate lines: the last number
                file.create_dataset("sentence_to_index", data=[numbers], dtype=h5py.string_dtype())
