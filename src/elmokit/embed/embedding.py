"""ELMo as a PyTorch layer: tokens in, contextual vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import cast

import torch
from torch import Tensor

from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, InputError
from elmokit.nn.bilm import BiLM
from elmokit.nn.mixed_bilm import ElmoOutput, MixedBiLM
from elmokit.nn.padded import TokenIds
from elmokit.weights.locate import load as load_model

Tokens = Sequence[Sequence[str]]


class ElmoEmbedding(MixedBiLM):
    """ELMo as a layer: learned mixes over a biLM that is frozen, or fine-tuned with the task.

    >>> elmo = ElmoEmbedding.from_pretrained(n_mixes=2, dropout=0.5)
    >>> at_input, at_output = elmo([["A", "short", "one"], ["Two", "words"]]).representations  # two of (2, 3, 2D)
    >>> lstm = torch.nn.LSTM(elmo.vector_dim, 100)

    Every sentence starts from zero state, so that equal sentences get equal vectors.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        marks: TokenIds | None = None,
        reader: WordReader | None = None,
        n_mixes: int = 1,
        dropout: float = 0.5,
        layer_norm: bool = False,
        top_only: bool = False,
        trainable: bool = False,
    ) -> None:
        """bilm: network of a loaded model; reader: converts tokens to ids; marks: ids of its sentence marks.

        Without a reader, `marks` are required, and `forward` takes ids only. `from_pretrained` sets all three.
        """
        if not isinstance(bilm, BiLM):
            raise TypeError(
                f"bilm: expected the network of a model, found {type(bilm).__name__}; use "
                "elmo = ElmoEmbedding.from_pretrained(), and then elmo(tokens)"
            )
        if marks is None:
            if reader is None:
                raise TypeError("reader: expected one, or marks, found neither; use ElmoEmbedding.from_pretrained")
            marks = reader.marks()
        super().__init__(
            bilm,
            marks=marks,
            n_mixes=n_mixes,
            dropout=dropout,
            layer_norm=layer_norm,
            top_only=top_only,
            trainable=trainable,
        )
        self._reader = reader

    @classmethod
    def from_pretrained(
        cls,
        model: str | PathLike[str] | tuple[str | PathLike[str], ...] | None = None,
        *,
        n_mixes: int = 1,
        dropout: float = 0.5,
        layer_norm: bool = False,
        top_only: bool = False,
        trainable: bool = False,
    ) -> ElmoEmbedding:
        """Load a model: the one inside the package, or a folder, a zip, a file, an (options, weights) pair.

        n_mixes: weighted sums of the layers, each with its own learned weights, for as many places in the network.
        dropout: of the vectors. layer_norm: normalize every layer before it is mixed. top_only: the last layer alone.
        trainable: fine-tune the biLM too; by default only the mixes learn.
        """
        if isinstance(model, Tensor):
            raise TypeError("model: expected a path or None, found a Tensor; call the layer with it: elmo(ids)")
        if not (isinstance(n_mixes, int) and n_mixes >= 1):
            raise ConfigError(f"n_mixes: expected a positive integer, found {n_mixes!r}")
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout: expected a probability below 1, found {dropout!r}")
        loaded = load_model(model)
        return cls(
            loaded.bilm,
            reader=WordReader(loaded),
            n_mixes=n_mixes,
            dropout=dropout,
            layer_norm=layer_norm,
            top_only=top_only,
            trainable=trainable,
        )

    @property
    def vector_dim(self) -> int:
        """Length of a token's vector, 2D: the input size of the layer that follows."""
        return self.bilm.config.vector_dim

    def ids(self, sentences: Tokens) -> tuple[TokenIds, Tensor]:
        """The padded ids of sentences of tokens, and their mask (B, T): what a data loader may prepare."""
        if self._reader is None:
            raise ConfigError("sentences: expected ids, as this layer has no reader; use ElmoEmbedding.from_pretrained")
        _check_tokens(sentences)
        lengths = [len(sentence) for sentence in sentences]
        mask = torch.arange(max(lengths, default=0)) < torch.tensor(lengths).unsqueeze(1)  # (B, T)
        ids = self._reader([token for sentence in sentences for token in sentence])

        def padded(flat: Tensor) -> Tensor:
            grid = flat.new_zeros((*mask.shape, *flat.shape[1:]))
            grid[mask] = flat
            return grid

        return ids.map(padded), mask

    def forward(self, sentences: Tokens | TokenIds | Tensor, mask: Tensor | None = None) -> ElmoOutput:
        """One representation (B, T, 2D) per mix, zero at padding, and the mask (B, T).

        sentences: lists of tokens; or padded ids: characters (B, T, M), words (B, T) of a model without characters, or
            both as TokenIds. mask: (B, T) true at tokens; by default where any character id is above 0.
        """
        if torch.compiler.is_dynamo_compiling():
            # tokens are strings, and packing depends on their lengths: torch.compile would give up here, or take
            # minutes. Not a decorator, because that would load the compiler with every import.
            represent = torch.compiler.disable(self._represent)  # type: ignore[no-untyped-call]
            return cast(ElmoOutput, represent(sentences, mask))
        return self._represent(sentences, mask)

    def _represent(self, sentences: Tokens | TokenIds | Tensor, mask: Tensor | None) -> ElmoOutput:
        device = self.bilm.device
        if isinstance(sentences, Tensor):
            ids = self._ids_of(sentences)
        elif isinstance(sentences, TokenIds):
            ids = sentences
        else:
            if mask is not None:
                raise ConfigError("mask: expected None, as lists of tokens have no padding")
            ids, mask = self.ids(sentences)
        return super().forward(ids.map(lambda tensor: tensor.to(device)), None if mask is None else mask.to(device))

    def _ids_of(self, tensor: Tensor) -> TokenIds:
        chars = self.bilm.config.char_cnn
        shape = "(B, T)" if chars is None else f"(B, T, {chars.max_characters})"
        fits = tensor.dim() == 2 if chars is None else tensor.dim() == 3 and tensor.shape[-1] == chars.max_characters
        if tensor.is_floating_point() or not fits:
            raise InputError(
                f"sentences: expected lists of tokens or ids of shape {shape}, found {tuple(tensor.shape)} of "
                f"{str(tensor.dtype).removeprefix('torch.')}"
            )
        return TokenIds(words=tensor) if chars is None else TokenIds(characters=tensor)


def _check_tokens(sentences: Tokens) -> None:
    if isinstance(sentences, str):
        raise InputError('sentences: expected lists of tokens, found one string; use [["A", "sentence"]]')
    if not isinstance(sentences, Sequence):
        raise InputError(f"sentences: expected lists of tokens, or ids, found {type(sentences).__name__}")
    if not sentences:
        raise InputError("sentences: expected one list of tokens or more, found none")
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, Sequence) or isinstance(sentence, str) or not all(map(_is_token, sentence)):
            raise InputError(
                f"sentences: expected lists of tokens, found {str(sentence)[:40]!r} at {number}; split text first, as "
                "with Elmo.tokens"
            )


def _is_token(token: object) -> bool:
    return isinstance(token, str)
