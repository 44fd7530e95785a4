"""Tokenizer of ELMo models for transformers: text to words, with word ids and character ids."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from transformers import BatchEncoding, PreTrainedTokenizer
from transformers.tokenization_utils_base import AddedToken, TruncationStrategy
from transformers.utils import PaddingStrategy

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.integrations.transformers.encoding import Span, TokenAlignment
from elmokit.integrations.transformers.shim import MODULE, write_shim
from elmokit.integrations.transformers.special_tokens import special_ids, special_tokens
from elmokit.text.characters import characters_of
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize
from elmokit.text.vocabulary import marks_of, vocabulary_of
from elmokit.weights import native
from elmokit.weights.files import single
from elmokit.weights.locate import ModelName, load
from elmokit.weights.model import Model

Text = str | Sequence[str]  # raw text, or its words


class ElmoTokenizer(PreTrainedTokenizer):  # type: ignore[misc]
    """Words of a text as the model reads them, one token each.

    `input_ids` are the numbers of words in the vocabulary; `char_ids` (M per token) are what a model with a character
    encoder reads, so words outside of the vocabulary have vectors of their own. The sentence marks are not among the
    tokens: the model adds them. A pair of texts is read as two sentences, with the marks between them.

    With `is_split_into_words` the words are the tokens. `return_offsets_mapping` and `word_ids()` work as those of
    fast tokenizers do.
    """

    vocab_files_names: ClassVar[dict[str, str]] = {"vocab_file": native.VOCABULARY, "alphabet_file": native.ALPHABET}
    model_input_names: Sequence[str] = ("input_ids", "char_ids", "attention_mask")
    padding_side = "right"
    _auto_map: ClassVar[dict[str, list[str | None]]] = {"AutoTokenizer": [f"{MODULE}.ElmoTokenizer", None]}

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | None = None,
        alphabet_file: str | os.PathLike[str] | None = None,
        options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """vocab_file: one word per line. alphabet_file: of code-point models. options: those of `ElmoConfig`."""
        words = () if vocab_file is None else native.read_vocabulary(single(Path(vocab_file)))
        alphabet = None if alphabet_file is None else single(Path(alphabet_file)).json()
        self._set_up(ModelConfig() if options is None else ModelConfig.from_options(options), words, alphabet)
        for name, token in special_tokens(self._shape).items():
            kwargs.setdefault(name, token)
        # Given here, because the base class would count distinct words, and so give an id that is taken.
        ids = special_ids(self._shape, self._vocabulary.words)
        self._added_tokens_decoder = {
            ids[name]: AddedToken(token, special=True, normalized=False)
            for name, token in special_tokens(self._shape).items()
        }
        self.options = self._shape.to_options()
        super().__init__(options=self.options, **kwargs)
        if self._characters is None:
            self.model_input_names = [name for name in self.model_input_names if name != "char_ids"]

    def _set_up(self, shape: ModelConfig, words: Sequence[str], alphabet: dict[str, int] | None) -> None:
        if shape.n_words and not words:
            raise FormatError(f"{native.VOCABULARY}: expected the words of this model's word table, found none")
        self._shape, self._alphabet = shape, alphabet
        self._characters = characters_of(shape, alphabet)
        self._vocabulary = vocabulary_of(shape, words)
        self._word_ids = {word: index for index, word in enumerate(self._vocabulary.words)}

    @classmethod
    def from_elmokit(cls, model: ModelName | Model | None = None, **kwargs: Any) -> ElmoTokenizer:
        """Tokenizer of a model of any format that elmokit reads; None is the packaged model."""
        loaded = model if isinstance(model, Model) else load(model)
        with TemporaryDirectory() as folder:
            native.write_side_files(loaded, Path(folder))
            vocabulary, alphabet = (Path(folder) / name for name in cls.vocab_files_names.values())
            return cls(
                vocab_file=vocabulary if vocabulary.is_file() else None,
                alphabet_file=alphabet if alphabet.is_file() else None,
                options=loaded.config.to_options(),
                **kwargs,
            )

    # What transformers asks of a tokenizer

    @property
    def is_fast(self) -> bool:
        """True, because offsets and word ids are available, which is what callers test for."""
        return True

    @property
    def vocab_size(self) -> int:
        """Words in the vocabulary, without padding."""
        return len(self._vocabulary)

    def get_vocab(self) -> dict[str, int]:
        """Ids of the words and of added tokens."""
        added: dict[str, int] = self._added_tokens_encoder
        return self._word_ids | added

    def tokenize(self, text: str, **kwargs: Any) -> list[str]:
        """The words of a text."""
        return self._words(text)[0]

    def _convert_token_to_id(self, token: str) -> int | None:
        if token in self._word_ids:
            return self._word_ids[token]
        return None if token == self.unk_token else self.unk_token_id

    def _convert_id_to_token(self, index: int) -> str:
        return self._vocabulary.words[index] if 0 <= index < len(self._vocabulary) else str(self.unk_token)

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """The two marks between the texts of a pair; a single text has none."""
        return 2 if pair else 0

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Write the vocabulary and the alphabet, as far as the model has them."""
        written = []
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        if self._vocabulary.words:
            written.append(Path(save_directory) / (prefix + native.VOCABULARY))
            written[-1].write_text("".join(f"{w}\n" for w in self._vocabulary.words), "utf-8", newline="\n")
        if self._alphabet is not None:
            written.append(Path(save_directory) / (prefix + native.ALPHABET))
            written[-1].write_text(json.dumps(self._alphabet, ensure_ascii=False, indent=0) + "\n", "utf-8")
        return tuple(map(str, written))

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> tuple[str, ...]:
        """Write the tokenizer's files, and the one that `auto_map` names."""
        files: tuple[str, ...] = super().save_pretrained(save_directory, *args, **kwargs)
        return (*files, str(write_shim(save_directory)))

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoTokenizer") -> None:
        """Do nothing: `auto_map` names the class already, and its source stays in elmokit."""

    # Encoding

    def _encode_plus(
        self,
        text: Any,
        text_pair: Any = None,
        add_special_tokens: bool = True,
        padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
        truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
        max_length: int | None = None,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: Any = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        **kwargs: Any,
    ) -> BatchEncoding:
        if return_overflowing_tokens:
            raise ConfigError("return_overflowing_tokens: expected False, as ELMo reads texts of any length")
        pairs, is_batch = _pairs(text, text_pair, is_split_into_words)
        limit = None if truncation_strategy == TruncationStrategy.DO_NOT_TRUNCATE else max_length
        aligned = [
            self._align(first, second, is_split_into_words, limit, truncation_strategy) for first, second in pairs
        ]
        columns: dict[str, list[Any]] = {"input_ids": [self._ids(item.tokens) for item in aligned]}
        if self._characters is not None:
            columns["char_ids"] = [self._characters.encode(item.tokens) for item in aligned]
        if return_token_type_ids:
            columns["token_type_ids"] = [[int(sequence or 0) for sequence in item.sequence_ids] for item in aligned]
        if return_special_tokens_mask:
            columns["special_tokens_mask"] = [item.special_tokens_mask for item in aligned]
        if return_offsets_mapping:
            columns["offset_mapping"] = [item.offsets for item in aligned]
        if return_length:
            columns["length"] = [len(item) for item in aligned]
        padded = self.pad(
            columns,
            padding=padding_strategy.value,
            max_length=max_length,
            pad_to_multiple_of=pad_to_multiple_of,
            padding_side=padding_side,
            return_attention_mask=return_attention_mask,
            verbose=False,
        )
        left = (padding_side or self.padding_side) == "left"
        lengths = [len(row) for row in padded["input_ids"]]
        alignments = [item.padded(n, str(self.pad_token), left=left) for item, n in zip(aligned, lengths, strict=True)]
        data = dict(padded)
        if return_tensors is None:
            data = {key: [_as_list(row) for row in rows] for key, rows in data.items()}
            data = data if is_batch else {key: rows[0] for key, rows in data.items()}
        return BatchEncoding(data, encoding=alignments, tensor_type=return_tensors)

    def _align(
        self, first: Text, second: Text | None, is_split: bool, limit: int | None, strategy: TruncationStrategy
    ) -> TokenAlignment:
        one = self._tokens(first, is_split)
        if second is None:
            one = self._cut(one, limit)
            return TokenAlignment(*one, list(range(len(one[0]))), [0] * len(one[0]))
        two = self._tokens(second, is_split)
        if limit is not None:
            keep = _lengths(len(one[0]), len(two[0]), max(limit - 2, 0), strategy)
            one, two = self._cut(one, keep[0]), self._cut(two, keep[1])
        n, m = len(one[0]), len(two[0])
        begin, end = marks_of(self._shape)[:2] if self._characters is None else (
            self._characters.begin, self._characters.end
        )  # fmt: skip
        return TokenAlignment(
            [*one[0], end, begin, *two[0]],
            [*one[1], (0, 0), (0, 0), *two[1]],
            [*range(n), None, None, *range(m)],
            [*[0] * n, None, None, *[1] * m],
        )

    def _tokens(self, text: Text, is_split: bool) -> tuple[list[str], list[Span]]:
        if is_split and not isinstance(text, str):
            words = list(text)
            if not all(isinstance(word, str) for word in words):
                raise InputError(f"text: expected a list of words, found {str(text)[:40]!r}")
            return words, [(0, len(word)) for word in words]
        if not isinstance(text, str):
            raise InputError(f"text: expected a string, found {str(text)[:40]!r}; of words, set is_split_into_words")
        return self._words(text)

    def _words(self, text: str) -> tuple[list[str], list[Span]]:
        words, offsets = tokenize(text, _splitter(self._shape.default_tokenizer))
        assert offsets is not None, "named tokenizers give offsets"
        return words, offsets

    def _cut(self, tokens: tuple[list[str], list[Span]], limit: int | None) -> tuple[list[str], list[Span]]:
        words, offsets = tokens
        if limit is None or len(words) <= limit:
            return tokens
        start = len(words) - limit if self.truncation_side == "left" else 0
        return words[start : start + limit], offsets[start : start + limit]

    def _ids(self, tokens: list[str]) -> list[int]:
        if self._shape.n_words:
            ids: list[int] = self._vocabulary.ids(tokens).tolist()
            return ids
        unknown: int = self.unk_token_id
        added: dict[str, int] = self._added_tokens_encoder
        return [added[token] if token in added else self._word_ids.get(token, unknown) for token in tokens]

    def _pad(
        self,
        encoded_inputs: dict[str, Any],
        max_length: int | None = None,
        padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
    ) -> dict[str, Any]:
        before = len(encoded_inputs["input_ids"])
        padded: dict[str, Any] = super()._pad(
            encoded_inputs, max_length, padding_strategy, pad_to_multiple_of, padding_side, return_attention_mask
        )
        missing = len(padded["input_ids"]) - before
        left = (padding_side or self.padding_side) == "left"
        if "char_ids" in padded:
            padded["char_ids"] = _pad_rows(padded["char_ids"], missing, self._width, left)
        if "offset_mapping" in padded and missing > 0:
            spans, nothing = list(padded["offset_mapping"]), [(0, 0)] * missing
            padded["offset_mapping"] = nothing + spans if left else spans + nothing
        return padded

    @property
    def _width(self) -> int:
        return 0 if self._characters is None else self._characters.max_characters


@cache
def _splitter(name: str) -> Tokenizer:
    """Tokenizer by name; not an attribute, because that of a spaCy pipeline cannot be pickled."""
    return get_tokenizer(name)


def _pad_rows(rows: Any, missing: int, width: int, left: bool) -> Any:
    """Append rows of zeros to the character ids (T, M) of a text: an array stays an array, a list a list."""
    if isinstance(rows, np.ndarray):
        zeros: NDArray[np.int64] = np.zeros((max(missing, 0), width), np.int64)
        return np.concatenate((zeros, rows) if left else (rows, zeros))
    zeros_list = [[0] * width] * missing
    return zeros_list + list(rows) if left else list(rows) + zeros_list


def _as_list(row: Any) -> Any:
    return row.tolist() if isinstance(row, np.ndarray) else row


def _pairs(text: Any, text_pair: Any, is_split: bool) -> tuple[list[tuple[Text, Text | None]], bool]:
    """The texts, each with the second of its pair or None; and whether they are a batch."""
    is_list = isinstance(text, (list, tuple))
    is_batch = is_list and (not is_split or any(not isinstance(item, str) for item in text))
    if not is_batch:
        return [(text, text_pair)], False
    if text_pair is not None:
        if len(text_pair) != len(text):
            raise InputError(f"text_pair: expected {len(text)} texts, as many as the first, found {len(text_pair)}")
        return list(zip(text, text_pair, strict=True)), True
    pairs: list[tuple[Text, Text | None]] = []
    for item in text:
        is_pair = isinstance(item, tuple if is_split else (list, tuple)) and len(item) == 2
        pairs.append((item[0], item[1]) if is_pair else (item, None))
    return pairs, True


def _lengths(first: int, second: int, limit: int, strategy: TruncationStrategy) -> tuple[int, int]:
    """Numbers of tokens kept of the two texts of a pair, after truncation to `limit` tokens."""
    if first + second <= limit:
        return first, second
    if strategy == TruncationStrategy.ONLY_FIRST:
        return max(limit - second, 0), second
    if strategy == TruncationStrategy.ONLY_SECOND:
        return first, max(limit - first, 0)
    half = limit // 2
    if second <= half:
        return limit - second, second
    if first <= limit - half:
        return first, limit - first
    return limit - half, half
