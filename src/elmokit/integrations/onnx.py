"""ELMo on onnxruntime: runs a file that `elmo export onnx` wrote. Needs numpy and onnxruntime, not torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.config import ModelConfig
from elmokit.disk.json_file import parse_json
from elmokit.embed.layer_choice import Layers, check_layers, combine_layers
from elmokit.embed.sentence import EmbeddedSentence, Pool
from elmokit.embed.texts import pooled
from elmokit.errors import ConfigError, FormatError, InputError, MissingExtraError, first_line
from elmokit.text.batch import by_length, windows
from elmokit.text.characters import characters_of
from elmokit.text.tokenized import TokenizedSentence, tokenized
from elmokit.text.tokenizer import Tokenizer, get_tokenizer
from elmokit.text.vocabulary import vocabulary_of

METADATA = "elmokit"  # key of our metadata in the file
FORMAT_VERSION = 1  # of the metadata, inputs and outputs
KEYS = ("options", "state", "vocabulary", "alphabet", "license", "fingerprint")  # of the metadata
BATCH_TOKENS = 1024  # padded tokens at a time
WINDOW_TOKENS = 8 * BATCH_TOKENS  # tokens of sentences that are sorted by length together


class OnnxElmo:
    """An exported biLM that turns sentences into vectors, with the results of `Elmo`.

    path: file that `elmo export onnx` wrote. threads: threads of onnxruntime; by default one per core.
    providers: execution providers of onnxruntime, in order of preference; by default the CPU.

    >>> elmo = OnnxElmo("elmo.onnx")
    >>> for sentence in elmo.embed(["I will buy you a present ."]):
    ...     print(sentence.tokens, sentence.layers.shape)
    """

    def __init__(
        self, path: str | os.PathLike[str], *, threads: int | None = None, providers: Sequence[str] | None = None
    ) -> None:
        self.path = os.fspath(path)
        self._session = _open(self.path, threads, providers)
        metadata = _read_metadata(self._session, self.path)
        self.config = ModelConfig.from_options(metadata["options"])
        self.state: str = metadata["state"]
        self.license: str | None = metadata["license"]
        self.fingerprint: str = metadata["fingerprint"]  # of the weights in full precision
        self._characters = characters_of(self.config, metadata["alphabet"])
        self._vocabulary = None
        if self.config.n_words:
            self._vocabulary = vocabulary_of(self.config, metadata["vocabulary"])

    @property
    def tokenizer(self) -> str:
        """Default tokenizer of raw text: the one that the options of the model name, or "words"."""
        return self.config.default_tokenizer

    def __repr__(self) -> str:
        lstm = self.config.lstm
        return f"OnnxElmo({os.path.basename(self.path)}, {lstm.n_layers}x{lstm.dim}/{lstm.projection_dim})"

    def embed(
        self,
        sentences: Iterable[str | Sequence[str]],
        *,
        layers: Layers = "all",
        tokenizer: str | Tokenizer | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Iterator[EmbeddedSentence]:
        """Embed any number of sentences, in order and in bounded memory.

        sentences: raw text for `tokenizer` ("words", "spaces", "spacy:de" or any callable), or lists of tokens.
        layers: "all"; or one combination: "top", "average", the number of a layer, or a weight for each layer.
        batch_tokens: tokens per batch, padding included.
        """
        if isinstance(sentences, str):
            raise InputError("embed expects a list of sentences, found one string: use [text]")
        if batch_tokens < 1:
            raise ConfigError(f"batch_tokens: expected a positive integer, found {batch_tokens!r}")
        chosen = check_layers(layers, self.config.n_vectors)
        prepared = tokenized(sentences, get_tokenizer(tokenizer or self.tokenizer))
        return self._embed(prepared, chosen, batch_tokens)

    def encode(
        self,
        texts: str | Iterable[str | Sequence[str]],
        *,
        pool: Pool = "mean",
        layers: Layers = "average",
        punctuation: bool = True,
        tokenizer: str | Tokenizer | None = None,
    ) -> NDArray[np.floating]:
        """One vector per text: (n, 2D), or (2D,) of a single string; zeros for a text without tokens."""
        one = isinstance(texts, str)
        stream = self.embed([texts] if one else texts, layers=layers, tokenizer=tokenizer)  # type: ignore[list-item]
        vectors = pooled(stream, pool, punctuation, self.config.vector_dim)
        return vectors[0] if one else vectors

    def run(self, batch: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """All layers of a batch of token lists, none of them empty: (B, L + 1, T, 2D), zero after a sentence's end."""
        numbers: dict[str, int] = {}
        lengths = np.array([len(tokens) for tokens in batch], np.int64)
        index = np.zeros((len(batch), int(lengths.max(initial=0))), np.int64)
        for row, tokens in zip(index, batch, strict=True):
            row[: len(tokens)] = [numbers.setdefault(token, len(numbers)) for token in tokens]
        words = list(numbers)
        feed = {"index": index, "lengths": lengths}
        if self._characters is not None:
            feed["characters"] = self._characters.encode(words)
        if self._vocabulary is not None:
            feed["words"] = self._vocabulary.ids(words)
        layers: NDArray[np.float32] = self._session.run(["layers"], feed)[0]
        return layers

    def _embed(
        self, prepared: Iterable[TokenizedSentence], layers: Layers, batch_tokens: int
    ) -> Iterator[EmbeddedSentence]:
        size = max(WINDOW_TOKENS, batch_tokens)
        for window in windows(prepared, lambda sentence: len(sentence.tokens), size):
            empty = np.zeros((self.config.n_vectors, 0, self.config.vector_dim), np.float32)
            arrays: list[NDArray[np.float32]] = [empty] * len(window)
            for batch in by_length([len(sentence.tokens) for sentence in window], batch_tokens=batch_tokens):
                found = self.run([window[k].tokens for k in batch])
                for row, k in zip(found, batch, strict=True):
                    arrays[k] = row[:, : len(window[k].tokens)]
            for sentence, array in zip(window, arrays, strict=True):
                vectors = np.array(combine_layers(array, layers))  # a copy: the batch is freed
                yield EmbeddedSentence(sentence.tokens, vectors, text=sentence.text, offsets=sentence.offsets)


def _open(path: str, threads: int | None, providers: Sequence[str] | None) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("running an ONNX file", "onnx") from None
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: expected a positive integer, found {threads!r}")
    available = onnxruntime.get_available_providers()
    chosen = list(providers) if providers is not None else ["CPUExecutionProvider"]
    if not chosen or not set(chosen) <= set(available):
        raise ConfigError(f"providers: expected some of {', '.join(available)}, found {chosen}")
    if not os.path.isfile(path):
        raise InputError(f"{path}: expected an ONNX file, found none; write one with elmo export onnx")
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads or 0
    try:
        return onnxruntime.InferenceSession(path, settings, providers=chosen)
    except Exception as error:  # onnxruntime's errors have no common base of their own
        raise FormatError(f"{path}: expected an ONNX file, found {first_line(error)}") from None


def _read_metadata(session: Any, path: str) -> dict[str, Any]:
    text = session.get_modelmeta().custom_metadata_map.get(METADATA)
    if text is None:
        raise FormatError(f"{path}: expected a file of elmo export onnx, found an ONNX file without its metadata")
    metadata = parse_json(text, f"{path}: metadata")
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT_VERSION:
        raise FormatError(
            f"{path}: expected metadata of format {FORMAT_VERSION}, found another; export the model again"
        )
    if missing := [key for key in KEYS if key not in metadata]:
        raise FormatError(f"{path}: expected {', '.join(missing)} in the metadata, found none; export the model again")
    return metadata
