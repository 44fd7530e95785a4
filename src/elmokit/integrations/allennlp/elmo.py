"""`Elmo` and `ElmoTokenEmbedder`: the modules used in task models."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from elmokit.errors import ConfigError
from elmokit.integrations.allennlp.bilm import _ElmoBiLm
from elmokit.integrations.allennlp.mix import ScalarMix
from elmokit.integrations.allennlp.params import FromParams
from elmokit.integrations.allennlp.pretrained import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE, PathLike
from elmokit.integrations.allennlp.submodules import SubmoduleLists, Submodules
from elmokit.integrations.allennlp.token_embedder import TokenEmbedder
from elmokit.integrations.allennlp.util import remove_sentence_boundaries

logger = logging.getLogger(__name__)


class Elmo(SubmoduleLists, FromParams):
    """One or more learned scalar mixes of biLM layers; the biLM is frozen unless `requires_grad`.

    `scalar_mix_parameters` fixes the mixes (before the softmax). `module` replaces the biLM.
    """

    _scalar_mixes = Submodules("scalar_mix_")

    def __init__(
        self,
        options_file: PathLike,
        weight_file: PathLike,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if module is not None and (options_file is not None or weight_file is not None):
            raise ConfigError("module: expected None as options_file and weight_file beside it, found a file")
        self._elmo_lstm: Any = module
        if module is None:
            self._elmo_lstm = _ElmoBiLm(options_file, weight_file, requires_grad, vocab_to_cache)
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        trainable = scalar_mix_parameters is None
        self._scalar_mixes = [
            ScalarMix(self._elmo_lstm.num_layers, do_layer_norm, scalar_mix_parameters, trainable)
            for _ in range(num_output_representations)
        ]

    def get_output_dim(self) -> int:
        """2D."""
        return int(self._elmo_lstm.get_output_dim())

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """inputs: (B, ..., T, 50) character ids; word_inputs: (B, ..., T) indices into `vocab_to_cache`.

        With cached words `inputs` may be these indices too. Returns `elmo_representations`, a list of (B, ..., T, 2D),
        zero at padding, and `mask` (B, ..., T). T includes the two boundary tokens if sentence boundaries are kept.
        """
        if word_inputs is not None and not self._has_cached_vocab:
            logger.warning("word_inputs are ignored: this Elmo was made without vocab_to_cache")
            word_inputs = None
        outer = inputs.shape[:-2] if word_inputs is None else word_inputs.shape[:-1]
        if inputs.dim() > 3:
            inputs = inputs.flatten(0, -3)
        if word_inputs is not None and word_inputs.dim() > 2:
            word_inputs = word_inputs.flatten(0, -2)
        output = self._elmo_lstm(inputs, word_inputs)
        mask = output["mask"]
        mixed = [mix(output["activations"], mask) for mix in self._scalar_mixes]
        if not self._keep_sentence_boundaries:
            removed = [remove_sentence_boundaries(vectors, mask) for vectors in mixed]
            mixed = [vectors for vectors, _ in removed]
            mask = mask[:, 2:] if not removed else removed[0][1]
        representations = [self._dropout(vectors) for vectors in mixed]
        if len(outer) > 1:
            representations = [vectors.unflatten(0, outer) for vectors in representations]
            mask = mask.unflatten(0, outer)
        return {"elmo_representations": representations, "mask": mask}


class ElmoTokenEmbedder(TokenEmbedder, FromParams):
    """One ELMo representation, projected to `projection_dim` if that is given."""

    def __init__(
        self,
        options_file: PathLike = DEFAULT_OPTIONS_FILE,
        weight_file: PathLike = DEFAULT_WEIGHT_FILE,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            1,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            requires_grad=requires_grad,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
        )
        self.output_dim = projection_dim or self._elmo.get_output_dim()
        self._projection = nn.Linear(self._elmo.get_output_dim(), projection_dim) if projection_dim else None

    def get_output_dim(self) -> int:
        """Output dimension."""
        return self.output_dim

    def forward(self, elmo_tokens: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        """elmo_tokens: (B, ..., T, 50); word_inputs: (B, ..., T). Returns (B, ..., T, output_dim)."""
        (vectors,) = self._elmo(elmo_tokens, word_inputs)["elmo_representations"]
        projected: Tensor = vectors if self._projection is None else self._projection(vectors)
        return projected
