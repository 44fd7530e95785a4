"""spaCy architecture `elmokit.Tok2Vec.v1`: frozen ELMo vectors and hash embeddings under a window encoder.

The ELMo vectors of the training sentences are computed once and kept in memory for the later epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spacy import registry
from spacy.ml.featureextractor import FeatureExtractor
from spacy.ml.models.tok2vec import MaxoutWindowEncoder, build_Tok2Vec_model
from spacy.tokens import Doc
from thinc.api import HashEmbed, Maxout, Model, chain, concatenate, list2ragged, ragged2list, with_array
from thinc.types import Floats2d

from elmokit.errors import ConfigError, FormatError
from elmokit.integrations.shared_model import shared_model
from elmokit.integrations.spacy.doc_vectors import Rows, embed_docs, embed_sentences, width_of

if TYPE_CHECKING:
    from elmokit.embed.elmo import Elmo

_HASH_SEED = 7  # as in spaCy's MultiHashEmbed


@registry.architectures("elmokit.Tok2Vec.v1")  # type: ignore[misc,untyped-decorator]
def build_tok2vec(
    width: int = 96,
    depth: int = 4,
    embed_size: int = 2000,
    window_size: int = 1,
    maxout_pieces: int = 3,
    subword_features: bool = True,
    model: str | list[str] | None = None,
    layers: str | int | list[float] = "all",
    state: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    cache_mb: int = 1024,
) -> Model[list[Doc], list[Floats2d]]:
    """Build the tok2vec layer: [ELMo; hash embeddings] -> maxout -> window encoder, as spaCy's HashEmbedCNN.

    width, depth, embed_size, window_size, maxout_pieces, subword_features: as in spacy.HashEmbedCNN.v2.
    model: path of an ELMo model, an [options, weights] pair, or None for the packaged one. Its weights are frozen, and
        are not saved with the pipeline.
    layers: "all" for all layers side by side, "average", "top", the number of a layer, or one weight per layer.
    state: "reset" or "warm"; by default the model's own. dtype: "float32", "float16" or "int8". device: as in torch.
    cache_mb: limit of the cache of training sentences in MiB; 0 for no cache.
    """
    attributes = ["NORM", "PREFIX", "SUFFIX", "SHAPE"] if subword_features else ["NORM"]
    rows = [embed_size] + [embed_size // 2] * (len(attributes) - 1)
    tables = [
        HashEmbed(width, n_rows, column=column, seed=_HASH_SEED + 1 + column, dropout=0.0)
        for column, n_rows in enumerate(rows)
    ]
    hashes = chain(FeatureExtractor(attributes), list2ragged(), with_array(concatenate(*tables)))
    frozen = FrozenElmo(model, layers, state, dtype, device, cache_mb)
    vectors = chain(Model("elmo", frozen.forward, attrs={"fingerprint": ""}), list2ragged())
    embed = chain(
        concatenate(hashes, vectors),
        with_array(Maxout(width, nP=3, dropout=0.0, normalize=True)),  # input width: inferred from the first batch
        ragged2list(),
    )
    encode = MaxoutWindowEncoder(width=width, window_size=window_size, maxout_pieces=maxout_pieces, depth=depth)
    return build_Tok2Vec_model(embed=embed, encode=encode)


class FrozenElmo:
    """Forward function of the Thinc layer `elmo`: Docs to arrays (tokens, width), without parameters.

    The fingerprint of the weights is an attribute of the layer, and so is saved with a pipeline: other weights at the
    same path are an error, not a silent loss of accuracy.
    """

    def __init__(self, model: Any, layers: Any, state: Any, dtype: Any, device: str | None, cache_mb: int) -> None:
        if cache_mb < 0:
            raise ConfigError(f"cache_mb: expected 0 or a positive number, found {cache_mb}")
        self._arguments, self._layers, self._cache_mb = (model, state, dtype, device), layers, cache_mb
        self._elmo: Elmo | None = None
        self.cache = SentenceCache(cache_mb * 2**20)

    def __reduce__(self) -> tuple[type[FrozenElmo], tuple[Any, ...]]:
        model, state, dtype, device = self._arguments
        return type(self), (model, self._layers, state, dtype, device, self._cache_mb)

    def forward(
        self, layer: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
    ) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
        """Arrays of each Doc, and a backward function that passes no gradient."""
        if self._elmo is None:
            model, state, dtype, device = self._arguments
            self._elmo = shared_model(model, state=state, dtype=dtype, device=device)
        elmo, found = self._elmo, self._elmo.model.fingerprint
        if layer.attrs["fingerprint"] not in ("", found):
            raise FormatError(
                "elmokit.Tok2Vec.v1: expected the ELMo model that the pipeline was trained with, found another; set "
                "model in config.cfg to the path of the right one"
            )
        layer.attrs["fingerprint"] = found

        def compute(sentences: list[tuple[str, ...]]) -> list[Rows]:
            return embed_sentences(elmo, sentences, self._layers)

        def compute_new(sentences: list[tuple[str, ...]]) -> list[Rows]:
            return self.cache.get_all(sentences, compute, keep=is_train)

        arrays = embed_docs(docs, compute_new, width_of(elmo, self._layers))
        return [layer.ops.asarray2f(array, dtype="float32") for array in arrays], lambda gradients: []


class SentenceCache:
    """Vectors of sentences, kept until a limit of bytes is reached.

    Nothing is evicted: training passes over all sentences in turn, where a cache of the latest would never hit.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._rows, self.bytes, self.hits, self.misses = limit, dict[tuple[str, ...], Rows](), 0, 0, 0

    def get_all(
        self,
        sentences: list[tuple[str, ...]],
        compute: Callable[[list[tuple[str, ...]]], list[Rows]],
        *,
        keep: bool,
    ) -> list[Rows]:
        """Vectors of each sentence, computed where they are not in the cache; kept only if `keep`."""
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._rows]
        computed = dict(zip(new, compute(new), strict=True))
        self.hits, self.misses = self.hits + len(sentences) - len(new), self.misses + len(new)
        found = [computed[sentence] if sentence in computed else self._rows[sentence] for sentence in sentences]
        for sentence, rows in computed.items() if keep else ():
            if self.bytes + rows.nbytes <= self._limit:
                self._rows[sentence] = rows
                self.bytes += rows.nbytes
        return found
