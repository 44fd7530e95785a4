"""`ElmoTokenEmbedderMultiLang` of AllenNLP 0.9: one ELMo per language, aligned by a matrix (Schuster et al., 2019)."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmokit.errors import ConfigError, FormatError, first_line
from elmokit.integrations.allennlp.elmo import Elmo
from elmokit.integrations.allennlp.params import FromParams
from elmokit.integrations.allennlp.pretrained import PathLike
from elmokit.integrations.allennlp.token_embedder import TokenEmbedder
from elmokit.integrations.published import cached_path


class ElmoTokenEmbedderMultiLang(TokenEmbedder, FromParams):
    """ELMo representations in one space for several languages, projected to `projection_dim` if that is given.

    options_files, weight_files: files by language. aligning_files: files of `torch.save` with the (2D, 2D) matrix of a
    language; without one, its vectors stay as they are.
    """

    def __init__(
        self,
        options_files: Mapping[str, PathLike],
        weight_files: Mapping[str, PathLike],
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
        aligning_files: Mapping[str, PathLike] | None = None,
    ) -> None:
        super().__init__()
        if not weight_files or options_files.keys() != weight_files.keys():
            raise ConfigError(
                f"ElmoTokenEmbedderMultiLang: expected options and weights of the same languages, found options of "
                f"{', '.join(options_files) or 'none'} and weights of {', '.join(weight_files) or 'none'}"
            )
        dims: dict[str, int] = {}
        for language, weight_file in weight_files.items():
            elmo = Elmo(
                options_files[language],
                weight_file,
                1,
                do_layer_norm=do_layer_norm,
                dropout=dropout,
                requires_grad=requires_grad,
                vocab_to_cache=vocab_to_cache,
                scalar_mix_parameters=scalar_mix_parameters,
            )
            self.add_module(f"elmo_{language}", elmo)
            dims[language] = elmo.get_output_dim()
        if len(set(dims.values())) > 1:
            raise ConfigError(f"ElmoTokenEmbedderMultiLang: expected models of one dimension, found {dims}")
        dim = next(iter(dims.values()))
        self.output_dim = projection_dim or dim
        self._projection = nn.Linear(dim, projection_dim) if projection_dim else None
        for language in weight_files:
            file = (aligning_files or {}).get(language)
            aligning = nn.Linear(dim, dim, bias=False)
            aligning.weight = nn.Parameter(_read_matrix(file, dim) if file else torch.eye(dim), requires_grad=False)
            self.add_module(f"aligning_{language}", aligning)

    def get_output_dim(self) -> int:
        """Output dimension."""
        return self.output_dim

    def forward(self, inputs: Tensor, lang: str, word_inputs: Tensor | None = None) -> Tensor:
        """inputs: (B, ..., T, 50), all of one language; word_inputs: (B, ..., T). Returns (B, ..., T, output_dim)."""
        languages = [name.removeprefix("elmo_") for name in self._modules if name.startswith("elmo_")]
        if lang not in languages:
            raise ConfigError(f"lang: expected {', '.join(languages)}, found {lang!r}")
        (vectors,) = getattr(self, f"elmo_{lang}")(inputs, word_inputs)["elmo_representations"]
        aligned: Tensor = getattr(self, f"aligning_{lang}")(vectors)
        return aligned if self._projection is None else self._projection(aligned)


def _empty_array(*_: Any) -> Any:
    """Stands in for numpy's constructor, whose shape could ask for any amount of memory; the content follows."""
    return np.empty(0)


# what a pickled array of numbers needs: the published matrices are such, not tensors
_ARRAYS: list[Any] = [
    (_empty_array, "numpy.core.multiarray._reconstruct"),
    (_empty_array, "numpy._core.multiarray._reconstruct"),
    (codecs.encode, "_codecs.encode"),
    np.ndarray,
    np.dtype,
    type(np.dtype("float32")),
    type(np.dtype("float64")),
]


def _read_matrix(file: PathLike, dim: int) -> Tensor:
    """(dim, dim) from a file of `torch.save` with a tensor or an array. Pickles that contain code are rejected."""
    assert file is not None
    path = cached_path(file)
    try:
        with torch.serialization.safe_globals(_ARRAYS):
            content = torch.load(path, map_location="cpu", weights_only=True)
        matrix = torch.as_tensor(content).float()
    except Exception as error:  # a damaged pickle can raise any error
        raise FormatError(
            f"{path}: expected a matrix of torch.save, found another file ({first_line(error)})"
        ) from None
    if matrix.shape != (dim, dim):
        raise FormatError(f"{path}: expected a matrix of shape {(dim, dim)}, found {tuple(matrix.shape)}")
    return matrix
