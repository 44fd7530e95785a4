"""Configuration of an ELMo model for transformers."""

from __future__ import annotations

import os
from typing import Any

from transformers import PreTrainedConfig

from elmokit.config import ModelConfig
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError
from elmokit.integrations.transformers.shim import MODULE, write_shim
from elmokit.integrations.transformers.special_tokens import special_ids
from elmokit.text.characters import BOS, EOS, ByteCharacters
from elmokit.weights.model import Model

_MARK_LENGTH = 3  # ids of a sentence mark before its padding: start of word, mark, end of word


class ElmoConfig(PreTrainedConfig):  # type: ignore[misc]
    """Configuration of ELMo (Peters et al. 2018).

    options: the published `options.json`, with the settings of elmokit; by default the shape of the original model.
    vocab_size: words and special tokens; a model that reads characters gives vectors to all other words, too.
    mark_characters: character ids of the start and the end mark, 2 x 3; `padding_character` fills their rows.
    mark_words: word ids of the two marks, and `unknown_word` of unknown words; only of models with a word table.
    classifier_dropout: dropout probability before the classifiers.

    `hidden_size` (2D) and `num_hidden_layers` (L) follow from the options.
    """

    model_type = "elmo"

    options: dict[str, Any] | None = None
    vocab_size: int = 0
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None
    mark_characters: list[list[int]] | None = None
    padding_character: int | None = None
    mark_words: list[int] | None = None
    unknown_word: int | None = None
    classifier_dropout: float = 0.5
    hidden_size: int = 0
    num_hidden_layers: int = 0
    auto_map: dict[str, str] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        shape = self.shape
        if self.options is None:
            self.options = shape.to_options()
        self.hidden_size, self.num_hidden_layers = shape.vector_dim, shape.lstm.n_layers
        if shape.char_cnn is not None and self.mark_characters is None:
            if shape.char_cnn.alphabet != "bytes":
                raise ConfigError("mark_characters: expected the ids of the marks, as the alphabet has its own")
            rows = ByteCharacters(shape.char_cnn.max_characters).encode([BOS, EOS])
            self.mark_characters, self.padding_character = rows[:, :_MARK_LENGTH].tolist(), int(rows[0, -1])
        names = ("AutoModel", "AutoModelForTokenClassification", "AutoModelForSequenceClassification")
        classes = ("ElmoModel", "ElmoForTokenClassification", "ElmoForSequenceClassification")
        self.auto_map = {"AutoConfig": f"{MODULE}.ElmoConfig"} | {
            name: f"{MODULE}.{kind}" for name, kind in zip(names, classes, strict=True)
        }
        super().__post_init__(**kwargs)

    @property
    def shape(self) -> ModelConfig:
        """The options as elmokit's configuration."""
        return ModelConfig() if self.options is None else ModelConfig.from_options(self.options)

    @classmethod
    def of_model(cls, model: Model, **kwargs: Any) -> ElmoConfig:
        """Configuration of a loaded model."""
        reader = WordReader(model)
        marks = reader.marks()
        if marks.characters is not None:
            kwargs["mark_characters"] = marks.characters[:, :_MARK_LENGTH].tolist()
            kwargs["padding_character"] = int(marks.characters[0, -1])
        if marks.words is not None and reader.vocabulary is not None:
            kwargs["mark_words"], kwargs["unknown_word"] = marks.words.tolist(), reader.vocabulary.unknown
        words = model.vocabulary or ()
        ids = special_ids(model.config, words)
        kwargs |= {f"{name}_id": ids[name] for name in ("bos_token", "eos_token", "pad_token")}
        kwargs["vocab_size"] = max(len(words), *(index + 1 for index in ids.values()))
        return cls(options=model.config.to_options(), **kwargs)

    def save_pretrained(self, save_directory: str | os.PathLike[str], **kwargs: Any) -> None:
        """Write `config.json`, and the file that `auto_map` names."""
        super().save_pretrained(save_directory, **kwargs)
        write_shim(save_directory)

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoConfig") -> None:
        """Do nothing: `auto_map` names the classes already, and their source stays in elmokit."""
