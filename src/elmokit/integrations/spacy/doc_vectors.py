"""ELMo vectors of spaCy Docs: sentence by sentence, with zero rows for white space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from spacy.tokens import Doc

from elmokit.embed.sharing import forked_from_threads

if TYPE_CHECKING:
    from elmokit.embed.elmo import Elmo
    from elmokit.embed.layer_choice import Layers

Rows = NDArray[np.floating]
EmbedSentences = Callable[[list[tuple[str, ...]]], list[Rows]]


def width_of(elmo: Elmo, layers: Layers) -> int:
    """Numbers per token: 2D, or (L + 1) * 2D with all layers side by side."""
    return elmo.config.vector_dim * (elmo.config.n_vectors if layers == "all" else 1)


def embed_sentences(elmo: Elmo, sentences: list[tuple[str, ...]], layers: Layers) -> list[Rows]:
    """One array (tokens, width) per sentence."""
    if forked_from_threads():  # a worker of `nlp.pipe(n_process=2)`
        torch.set_num_threads(1)
    stream = elmo.embed(sentences, layers=layers, progress=False)
    return [np.concatenate(list(sentence.layers), axis=1) for sentence in stream]


def embed_docs(docs: Sequence[Doc], embed: EmbedSentences, width: int) -> list[Rows]:
    """One array (tokens, width) per Doc, from one call of `embed` with all their sentences."""
    places = [list(_sentences(doc)) for doc in docs]
    texts = [[token.text for token in doc] for doc in docs]
    pairs = list(zip(texts, places, strict=True))
    rows = iter(embed([tuple(text[k] for k in place) for text, of_doc in pairs for place in of_doc]))
    arrays = []
    for text, of_doc in pairs:
        found = [next(rows) for _ in of_doc]
        array = np.zeros((len(text), width), found[0].dtype if found else np.float32)
        for place, vectors in zip(of_doc, found, strict=True):
            array[place] = vectors
        arrays.append(array)
    return arrays


def _sentences(doc: Doc) -> Iterator[list[int]]:
    """Places of the tokens of each sentence, without white space; a Doc without sentence boundaries is one."""
    sentence: list[int] = []
    for place, token in enumerate(doc):
        if token.is_sent_start and sentence:
            yield sentence
            sentence = []
        if not token.is_space:
            sentence.append(place)
    if sentence:
        yield sentence
