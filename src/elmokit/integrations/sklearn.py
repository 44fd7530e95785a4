"""scikit-learn transformers: text to ELMo sentence vectors, and token lists to token vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from elmokit.config import IndependentState
from elmokit.embed.layer_choice import Layers, check_layers
from elmokit.embed.sentence import Pool
from elmokit.errors import ConfigError, InputError, MissingExtraError
from elmokit.integrations.shared_model import ModelName, shared_model
from elmokit.text.tokenizer import Tokenizer, get_tokenizer

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ModuleNotFoundError:
    raise MissingExtraError("the scikit-learn integration", "sklearn") from None

if TYPE_CHECKING:
    from elmokit.embed.elmo import Dtype, Elmo

__all__ = ["ElmoTokenTransformer", "ElmoTransformer"]


class _ElmoEstimator(BaseEstimator):  # type: ignore[misc]
    """Settings of the model, tags and validation. The weights are not part of an estimator: pickles hold settings."""

    model: ModelName
    layers: Layers
    state: IndependentState | None
    dtype: Dtype | None
    device: str | None
    batch_size: int | None

    def _elmo(self) -> Elmo:
        return shared_model(self.model, state=self.state, dtype=self.dtype, device=self.device)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the settings and load the model; nothing is learned from X or y."""
        check_layers(self.layers, self._elmo().config.n_vectors)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit, tags.no_validation = False, True
        return tags


class ElmoTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _ElmoEstimator):  # type: ignore[misc]
    """ELMo sentence vectors as a scikit-learn transformer: n texts to an array (n, 2D), as `Elmo.encode`.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> classifier = make_pipeline(ElmoTransformer(), LogisticRegression())

    Texts are strings or lists of tokens, in a list, an array, a Series, or a DataFrame with one column.

    model: path of a model, an (options, weights) pair, or None for the packaged one.
    pool: "mean" or "max" over the tokens. punctuation: whether tokens without a letter or digit count.
    layers: "average", "top", the number of a layer, or one weight per layer.
    tokenizer: of raw text: "words", "spaces", "spacy:de" or a function; by default the model's own.
    state: "reset" or "warm"; by default the model's own. dtype: "float32", "float16" or "int8". device: as in torch.
    batch_size: sentences per batch; by default batches are filled by tokens.
    """

    def __init__(
        self,
        model: ModelName = None,
        *,
        pool: Pool = "mean",
        layers: Layers = "average",
        punctuation: bool = True,
        tokenizer: str | Tokenizer | None = None,
        state: IndependentState | None = None,
        dtype: Dtype | None = None,
        device: str | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.model = model
        self.pool = pool
        self.layers = layers
        self.punctuation = punctuation
        self.tokenizer = tokenizer
        self.state = state
        self.dtype = dtype
        self.device = device
        self.batch_size = batch_size

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the settings and load the model; nothing is learned from X or y."""
        if self.pool not in ("mean", "max"):
            raise ConfigError(f"pool: expected mean or max, found {self.pool!r}")
        if self.tokenizer is not None:
            get_tokenizer(self.tokenizer)
        return super().fit(X, y)

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Sentence vectors (n, 2D); zeros for a text without tokens."""
        return self._elmo().encode(
            _texts(X),
            pool=self.pool,
            layers=self.layers,
            punctuation=self.punctuation,
            tokenizer=self.tokenizer,
            batch_size=self.batch_size,
            progress=False,
        )

    @property
    def _n_features_out(self) -> int:
        return self._elmo().config.vector_dim


class ElmoTokenTransformer(TransformerMixin, _ElmoEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]
    """ELMo token vectors as a scikit-learn transformer, for tagging: lists of tokens to one array (tokens, 2D) each.

    stack: False returns a list with one array per sentence. True returns the rows of all sentences as one array
        (all tokens, 2D), for a classifier of tokens; its labels are then `[tag for tags in y for tag in tags]`.
    layers: "average", "top", the number of a layer, one weight per layer, or "all" for all layers side by side:
        (tokens, (L + 1) * 2D).
    model, state, dtype, device, batch_size: as for `ElmoTransformer`.
    """

    def __init__(
        self,
        model: ModelName = None,
        *,
        layers: Layers = "average",
        stack: bool = False,
        state: IndependentState | None = None,
        dtype: Dtype | None = None,
        device: str | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.model = model
        self.layers = layers
        self.stack = stack
        self.state = state
        self.dtype = dtype
        self.device = device
        self.batch_size = batch_size

    def transform(self, X: Any) -> list[NDArray[np.floating]] | NDArray[np.floating]:
        """One array (tokens, 2D) per sentence, or all rows as one array with `stack=True`."""
        sentences = _texts(X)
        for number, tokens in enumerate(sentences):
            if isinstance(tokens, str):
                raise InputError(f"sentence {number}: expected a list of tokens, found the text {tokens[:40]!r}")
        elmo = self._elmo()
        stream = elmo.embed(sentences, layers=self.layers, batch_size=self.batch_size, progress=False)
        arrays = [np.concatenate(list(sentence.layers), axis=1) for sentence in stream]
        if not self.stack:
            return arrays
        n_vectors = elmo.config.n_vectors if self.layers == "all" else 1
        empty = np.zeros((0, n_vectors * elmo.config.vector_dim), np.float32)
        return np.concatenate(arrays) if arrays else empty


def _texts(X: Any) -> list[str | Sequence[str]]:
    """Rows of a list, array, Series, or table with one column, as texts or lists of tokens."""
    if isinstance(X, str) or not isinstance(X, Iterable):
        raise InputError(f"X: expected a list of texts or of token lists, found {type(X).__name__} {str(X)[:40]!r}")
    shape: tuple[int, ...] = getattr(X, "shape", (0,))
    if len(shape) > 2 or (len(shape) == 2 and shape[1] != 1):
        raise InputError(f"X: expected one column of text, found shape {tuple(shape)}; use a ColumnTransformer")
    rows = np.asarray(X, dtype=object)[:, 0] if len(shape) == 2 else X
    return [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
