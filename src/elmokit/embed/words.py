"""Words to the ids that a model's token encoder reads."""

from __future__ import annotations

import torch

from elmokit.errors import FormatError
from elmokit.nn.padded import TokenIds
from elmokit.text.characters import ByteCharacters, CodePointCharacters
from elmokit.text.vocabulary import MANY_LANGS_MARKS, PUBLISHED_MARKS, Vocabulary
from elmokit.weights.model import Model


class WordReader:
    """The character ids, the word ids, or both, as the model wants; and the marks around a sentence."""

    def __init__(self, model: Model) -> None:
        config = model.config
        self.characters: ByteCharacters | CodePointCharacters | None = None
        self.vocabulary: Vocabulary | None = None
        self.begin, self.end = "<S>", "</S>"
        if config.char_cnn is not None:
            if config.char_cnn.alphabet == "bytes":
                self.characters = ByteCharacters(config.char_cnn.max_characters)
            elif model.alphabet is None:
                raise FormatError(f"{model.format} model: expected an alphabet of code points, found none")
            else:
                self.characters = CodePointCharacters(model.alphabet, config.char_cnn.max_characters)
            self.begin, self.end = self.characters.begin, self.characters.end
        if config.n_words:
            if model.vocabulary is None:
                raise FormatError(f"{model.format} model reads words: put its vocabulary.txt beside the weights")
            many_langs = config.char_cnn is not None
            self.vocabulary = Vocabulary(model.vocabulary, marks=MANY_LANGS_MARKS if many_langs else PUBLISHED_MARKS)

    def __call__(self, words: list[str]) -> TokenIds:
        """Ids of n words: characters (n, M) and words (n,)."""
        characters = None if self.characters is None else torch.from_numpy(self.characters.encode(words))
        ids = None
        if self.vocabulary is not None:
            if self.characters is not None:  # ELMoForManyLangs cuts a word before it looks it up
                words = [word[: self.characters.max_characters - 2] for word in words]
            ids = torch.from_numpy(self.vocabulary.ids(words))
        return TokenIds(characters, ids)

    def marks(self) -> TokenIds:
        """Ids of the begin and the end mark, (2, ...)."""
        return self([self.begin, self.end])
