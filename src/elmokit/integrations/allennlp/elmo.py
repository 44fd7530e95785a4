"""The modules that tasks were built with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from elmokit.errors import ConfigError
from elmokit.integrations.allennlp.bilm import _ElmoBiLm
from elmokit.integrations.allennlp.ids import remove_sentence_boundaries
from elmokit.nn import scalar_mix

logger = logging.getLogger(__name__)


class ScalarMix(nn.Module):
    """gamma * sum_k softmax(scalar_parameters)_k layer_k, with every weight a parameter of its own.

    With `do_layer_norm` each layer is normalised over all tokens of the batch at once, sentence marks included.
    """

    def __init__(
        self, mixture_size: int, do_layer_norm: bool = False, initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mixture_size, self.do_layer_norm = mixture_size, do_layer_norm
        mix = scalar_mix.ScalarMix(
            n_layers=mixture_size, weights=initial_scalar_parameters, layer_norm=do_layer_norm, epsilon=1e-13
        )
        self._formula = (mix,)  # in a tuple, which hides its parameters: ours take their place
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(weight.detach().reshape(1), requires_grad=trainable) for weight in mix.scalars
        )
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """tensors: a (B, T, d) for each layer; mask: (B, T), for the layer norm. Returns (B, T, d)."""
        parameters = {"scalars": torch.cat(list(self.scalar_parameters)), "gamma": self.gamma}
        mask = None if mask is None else mask.bool()
        mixed: Tensor = functional_call(self._formula[0], parameters, (tensors, mask))
        return mixed


class Elmo(nn.Module):
    """One or more learnt mixes of the layers of a biLM, which stays as it is unless `requires_grad`.

    `scalar_mix_parameters` fixes the mixes (before the softmax). `module` takes the place of the biLM.
    """

    def __init__(
        self, options_file: str | None, weight_file: str | None, num_output_representations: int,
        requires_grad: bool = False, do_layer_norm: bool = False, dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None, keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None, module: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if module is not None and (options_file is not None or weight_file is not None):
            raise ConfigError("module: expected None as options_file and weight_file beside it, found a file")
        self._elmo_lstm: Any = module
        if module is None:
            self._elmo_lstm = _ElmoBiLm(options_file, weight_file, requires_grad, vocab_to_cache)
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._scalar_mixes: list[ScalarMix] = []
        for k in range(num_output_representations):
            trainable = scalar_mix_parameters is None
            mix = ScalarMix(self._elmo_lstm.num_layers, do_layer_norm, scalar_mix_parameters, trainable)
            self.add_module(f"scalar_mix_{k}", mix)
            self._scalar_mixes.append(mix)

    def get_output_dim(self) -> int:
        """2D."""
        return int(self._elmo_lstm.get_output_dim())

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """inputs: (B, ..., T, 50) character ids; word_inputs: (B, ..., T) places in `vocab_to_cache`.

        Returns `elmo_representations`, a list of (B, ..., T, 2D), zero at padding, and `mask` (B, ..., T). T counts the
        two marks where sentence boundaries are kept.
        """
        if word_inputs is not None and not self._has_cached_vocab:
            logger.warning("word_inputs are ignored: this Elmo was made without vocab_to_cache")
            word_inputs = None
        outer = inputs.shape[:-2]
        words = None if word_inputs is None else word_inputs.flatten(0, -2)
        output = self._elmo_lstm(inputs.flatten(0, -3), words)
        mask = output["mask"]
        mixed = [mix(output["activations"], mask) for mix in self._scalar_mixes]
        if not self._keep_sentence_boundaries:
            mixed = [remove_sentence_boundaries(vectors, mask)[0] for vectors in mixed]
            mask = mask[:, 2:]
        representations = [self._dropout(vectors).unflatten(0, outer) for vectors in mixed]
        return {"elmo_representations": representations, "mask": mask.unflatten(0, outer)}


class ElmoTokenEmbedder(nn.Module):
    """One ELMo representation, projected to `projection_dim` if that is given."""

    def __init__(
        self, options_file: str | None = None, weight_file: str | None = None, do_layer_norm: bool = False,
        dropout: float = 0.5, requires_grad: bool = False, projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None, scalar_mix_parameters: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._elmo = Elmo(
            options_file, weight_file, 1, do_layer_norm=do_layer_norm, dropout=dropout, requires_grad=requires_grad,
            vocab_to_cache=vocab_to_cache, scalar_mix_parameters=scalar_mix_parameters,
        )  # fmt: skip
        self.output_dim = projection_dim or self._elmo.get_output_dim()
        self._projection = nn.Linear(self._elmo.get_output_dim(), projection_dim) if projection_dim else None

    def get_output_dim(self) -> int:
        """The length of a vector."""
        return self.output_dim

    def forward(self, elmo_tokens: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        """elmo_tokens: (B, ..., T, 50); word_inputs: (B, ..., T). Returns (B, ..., T, output_dim)."""
        (vectors,) = self._elmo(elmo_tokens, word_inputs)["elmo_representations"]
        projected: Tensor = vectors if self._projection is None else self._projection(vectors)
        return projected
