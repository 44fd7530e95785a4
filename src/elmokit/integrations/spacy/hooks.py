"""Hooks that let Doc, Span and Token read vectors and similarities from `doc.tensor`.

They are module-level functions without a reference to the model, so that a Doc stays small when it is pickled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token

from elmokit.embed.texts import cosines


def set_hooks(doc: Doc) -> Doc:
    """Let a Doc, its Spans and Tokens take vector, vector_norm, has_vector and similarity from `doc.tensor`.

    The component `elmo` does this. Serialization drops hooks, so Docs need it again after `Doc.from_bytes`, `DocBin`
    or `nlp.pipe(n_process=2)`.
    """
    for hooks, vector, has_vector in (
        (doc.user_hooks, mean_vector, has_rows),
        (doc.user_span_hooks, mean_vector, has_rows),
        (doc.user_token_hooks, token_vector, token_has_vector),
    ):
        hooks.update(vector=vector, has_vector=has_vector, vector_norm=vector_norm, similarity=similarity)
    # spaCy 3.8 answers Span.vector_norm with the hook for the vector; without a hook it computes the norm
    del doc.user_span_hooks["vector_norm"]
    return doc


def token_vector(token: Token) -> NDArray[np.floating]:
    """Row of `doc.tensor`: zeros for white space."""
    row: NDArray[np.floating] = token.doc.tensor[token.i]
    return row


def token_has_vector(token: Token) -> bool:
    """Whether the token is not white space."""
    return token.doc.tensor.size > 0 and not token.is_space


def mean_vector(tokens: Doc | Span) -> NDArray[np.floating]:
    """Mean of the token vectors, white space excluded."""
    tensor = _doc(tokens).tensor
    rows = [token.i for token in tokens if not token.is_space]
    if not rows:
        return np.zeros(tensor.shape[1:], np.float32)
    mean: NDArray[np.floating] = tensor[rows].mean(axis=0, dtype=np.float32)
    return mean


def has_rows(tokens: Doc | Span) -> bool:
    """Whether any token has a vector."""
    return _doc(tokens).tensor.size > 0 and any(not token.is_space for token in tokens)


def vector_norm(tokens: Doc | Span | Token) -> float:
    """Euclidean norm of the vector."""
    return float(np.linalg.norm(np.asarray(tokens.vector, np.float32)))


def similarity(first: Doc | Span | Token, second: Any) -> float:
    """Cosine of the vectors; 0 if one of them is zero."""
    return float(cosines(np.asarray(first.vector), np.asarray(second.vector)))


def _doc(tokens: Doc | Span) -> Doc:
    return tokens if isinstance(tokens, Doc) else tokens.doc
