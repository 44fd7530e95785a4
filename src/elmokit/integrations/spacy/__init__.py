"""spaCy integration: the pipeline component `elmo` and the trainable architecture `elmokit.Tok2Vec.v1`.

spaCy imports this module with every pipeline that it creates, because of the entry point: no model is loaded here.
"""

from __future__ import annotations

from elmokit.errors import MissingExtraError

try:
    import spacy as _spacy  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtraError("the spaCy integration", "spacy") from None

from elmokit.integrations.spacy.component import ElmoPipe, make_elmo
from elmokit.integrations.spacy.hooks import set_hooks
from elmokit.integrations.spacy.tok2vec import build_tok2vec

__all__ = ["ElmoPipe", "build_tok2vec", "make_elmo", "set_hooks"]
