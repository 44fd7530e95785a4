"""flair integration: ELMo vectors as `TokenEmbeddings`, for sequence taggers that train, save and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from elmokit.config import IndependentState
from elmokit.errors import ConfigError, FormatError, MissingExtraError
from elmokit.integrations.shared_model import ModelName, shared_model

try:
    import flair
except ModuleNotFoundError:
    raise MissingExtraError("the flair integration", "flair") from None

from flair.data import Sentence
from flair.embeddings.base import TokenEmbeddings, register_embeddings

if TYPE_CHECKING:
    from elmokit.embed.elmo import Dtype, Elmo
    from elmokit.embed.layer_choice import Layers

__all__ = ["ElmoTokenEmbeddings"]


@register_embeddings  # type: ignore[misc,untyped-decorator]
class ElmoTokenEmbeddings(TokenEmbeddings):  # type: ignore[misc]
    """ELMo vectors of the tokens of flair Sentences; frozen, so flair computes them once for all epochs.

    A saved tagger holds the settings and the fingerprint of the model, not its weights. Import this module before
    `SequenceTagger.load`.

    model: path of a model, an (options, weights) pair, or None for the packaged one.
    layers: "all" for all layers side by side, "average", "top", the number of a layer, or one weight per layer.
    state: "reset" or "warm"; by default the model's own. dtype: "float32", "float16" or "int8". device: as in torch.
    name: key of the vectors in a token, distinct where several embeddings are stacked.
    """

    def __init__(
        self,
        model: ModelName = None,
        *,
        layers: Layers = "all",
        state: IndependentState | None = None,
        dtype: Dtype | None = None,
        device: str | None = None,
        name: str = "elmo",
    ) -> None:
        from elmokit.embed.layer_choice import check_layers

        self.name, self.static_embeddings = name, True
        super().__init__()
        self._settings: dict[str, Any] = {
            "model": model,
            "layers": layers,
            "state": state,
            "dtype": dtype,
            "device": device,
            "name": name,
        }
        check_layers(layers, self.elmo.config.n_vectors)

    @property
    def elmo(self) -> Elmo:
        """The model, shared with other embeddings of this process; not a submodule, so no optimizer sees it."""
        chosen = {key: self._settings[key] for key in ("state", "dtype", "device")}
        return shared_model(self._settings["model"], **chosen)

    @property
    def embedding_length(self) -> int:
        """Numbers per token: 2D, or (L + 1) * 2D with all layers side by side."""
        config = self.elmo.config
        return config.vector_dim * (config.n_vectors if self._settings["layers"] == "all" else 1)

    def _add_embeddings_internal(self, sentences: list[Sentence]) -> list[Sentence]:
        tokens = [[token.text for token in sentence] for sentence in sentences]
        stream = self.elmo.embed(tokens, layers=self._settings["layers"], progress=False)
        for sentence, embedded in zip(sentences, stream, strict=True):
            rows = torch.from_numpy(np.concatenate(list(embedded.layers), axis=1)).float().to(flair.device)
            for token, row in zip(sentence, rows, strict=True):
                token.set_embedding(self.name, row)
        return sentences

    def to_params(self) -> dict[str, Any]:
        """Settings for a saved tagger, with the fingerprint of the model."""
        return {**self._settings, "fingerprint": self.elmo.model.fingerprint}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> ElmoTokenEmbeddings:
        """Restore the embeddings of a saved tagger; another model at the same path is an error."""
        settings = dict(params)
        expected = settings.pop("fingerprint", None)
        if unknown := settings.keys() - {"model", "layers", "state", "dtype", "device", "name"}:
            raise ConfigError(f"ElmoTokenEmbeddings: unknown settings {', '.join(sorted(unknown))}")
        embeddings = cls(**settings)
        if expected not in (None, embeddings.elmo.model.fingerprint):
            raise FormatError("ElmoTokenEmbeddings: expected the model that the tagger was trained with, found another")
        return embeddings
