"""Words to the ids that a model's token encoder reads."""

from __future__ import annotations

import torch

from elmokit.errors import FormatError
from elmokit.nn.padded import TokenIds
from elmokit.text.characters import BOS, EOS, characters_of
from elmokit.text.vocabulary import Vocabulary, vocabulary_of
from elmokit.weights.model import Model


class WordReader:
    """Character ids, word ids or both, as the model requires, and the marks around a sentence."""

    def __init__(self, model: Model) -> None:
        config = model.config
        self.characters = characters_of(config, model.alphabet)
        self.vocabulary: Vocabulary | None = None
        self.begin, self.end = (self.characters.begin, self.characters.end) if self.characters else (BOS, EOS)
        if config.n_words:
            if model.vocabulary is None:
                raise FormatError(f"{model.format} model reads words: put its vocabulary.txt beside the weights")
            self.vocabulary = vocabulary_of(config, model.vocabulary)

    def __call__(self, words: list[str]) -> TokenIds:
        """Ids of n words: characters (n, M) and words (n,)."""
        characters = None if self.characters is None else torch.from_numpy(self.characters.encode(words))
        ids = None if self.vocabulary is None else torch.from_numpy(self.vocabulary.ids(words))
        return TokenIds(characters, ids)

    def marks(self) -> TokenIds:
        """Ids of the start and end marks, (2, ...)."""
        return self([self.begin, self.end])
