"""Words to character ids, with the classes and the dictionaries of `allennlp.data.token_indexers`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from elmokit.errors import ConfigError
from elmokit.integrations.allennlp.params import FromParams
from elmokit.text.characters import BOS, EOS, ByteCharacters

MAX_CHARACTERS = 50  # always, independent of the model options
_BYTES = ByteCharacters(MAX_CHARACTERS)


def batch_to_ids(batch: Iterable[Iterable[str]]) -> Tensor:
    """Character ids of tokenized sentences: (sentences, tokens of the longest, 50), zero where there is no token.

    Sentences without any word give (sentences, 0), as in AllenNLP.
    """
    ids = pad_characters([list(sentence) for sentence in batch], MAX_CHARACTERS)
    return ids if ids.numel() else ids.flatten(1)


def pad_characters(batch: Sequence[Sequence[str]], width: int) -> Tensor:
    """Character ids of tokenized sentences: (B, T, width)."""
    lengths = torch.tensor([len(sentence) for sentence in batch], dtype=torch.long)  # (B,)
    n_steps = max(map(len, batch), default=0)
    ids = torch.zeros(len(batch), n_steps, width, dtype=torch.long)
    words = [word for sentence in batch for word in sentence]
    ids[torch.arange(n_steps) < lengths.unsqueeze(1)] = characters(words, width)
    return ids


def characters(words: Sequence[str], width: int, device: torch.device | str = "cpu") -> Tensor:
    """Character ids of n words: (n, width)."""
    return torch.from_numpy(ByteCharacters(width).encode(words)).to(device)


def _make_bos_eos(
    character: int,
    padding_character: int,
    beginning_of_word_character: int,
    end_of_word_character: int,
    max_word_length: int,
) -> list[int]:
    """Row of a special token, before the shift by one."""
    word = [beginning_of_word_character, character, end_of_word_character]
    return word + [padding_character] * (max_word_length - len(word))


def _mark(character: int) -> list[int]:
    return _make_bos_eos(character, 260, 258, 259, MAX_CHARACTERS)


class ELMoCharacterMapper:
    """One word to its 50 character ids. `tokens_to_add` maps additional words to single character ids.

    The constants are ids before the shift by one that reserves 0 for padding.
    """

    max_word_length = MAX_CHARACTERS
    beginning_of_sentence_character = 256
    end_of_sentence_character = 257
    beginning_of_word_character = 258
    end_of_word_character = 259
    padding_character = 260
    beginning_of_sentence_characters = _mark(256)
    end_of_sentence_characters = _mark(257)
    bos_token = BOS
    eos_token = EOS

    def __init__(self, tokens_to_add: Mapping[str, int] | None = None) -> None:
        self.tokens_to_add = dict(tokens_to_add or {})

    def convert_word_to_char_ids(self, word: str) -> list[int]:
        """50 ids from 1 to 261."""
        if word in self.tokens_to_add:
            return [character + 1 for character in _mark(self.tokens_to_add[word])]
        ids: list[int] = _BYTES.encode([word])[0].tolist()
        return ids

    def __eq__(self, other: object) -> bool:
        """Mappers with the same additional words are equal."""
        return isinstance(other, ELMoCharacterMapper) and self.tokens_to_add == other.tokens_to_add

    __hash__ = None  # type: ignore[assignment]


class TokenIndexer(FromParams):
    """Base of the token indexers: padding, in the dialects of AllenNLP 0.x, 0.9 and 2.

    A subclass maps one token to its ids in `token_to_indices`. `tokens_to_indices` returns those of a text under the
    key that AllenNLP 2 uses (`key`) or 0.9 (`index_name`).
    """

    key = "tokens"
    token_shape: tuple[int, ...] = ()  # of the ids of one token

    def __init__(self, token_min_padding_length: int = 0) -> None:
        self._token_min_padding_length = token_min_padding_length

    def count_vocab_items(self, token: Any, counter: dict[str, dict[str, int]]) -> None:
        """Count a token for the vocabulary."""

    def token_to_indices(self, token: Any, vocabulary: Any = None) -> Any:
        """The ids of one token, as before AllenNLP 0.8."""
        raise NotImplementedError

    def tokens_to_indices(
        self, tokens: Iterable[Any], vocabulary: Any = None, index_name: str | None = None
    ) -> dict[str, list[Any]]:
        """The ids of tokens, under one key."""
        return {index_name or self.key: [self.token_to_indices(token, vocabulary) for token in tokens]}

    def get_empty_token_list(self) -> dict[str, list[Any]]:
        """The ids of no tokens."""
        return {self.key: []}

    def get_padding_token(self) -> Any:
        """The ids of padding, as in 0.9."""
        return torch.zeros(self.token_shape, dtype=torch.long).tolist()

    def get_padding_lengths(self, indexed: Any) -> dict[str, int]:
        """Number of tokens, for a dictionary (AllenNLP 2); for a single token (0.9), nothing needs padding."""
        if not isinstance(indexed, Mapping):
            return {}
        return {key: max(len(rows), self._token_min_padding_length) for key, rows in indexed.items()}

    def get_token_min_padding_length(self) -> int:
        """Minimum number of tokens to pad to."""
        return self._token_min_padding_length

    def get_keys(self, index_name: str) -> list[str]:
        """Keys of the result of `tokens_to_indices` in 0.9."""
        return [index_name]

    def as_padded_tensor_dict(
        self, tokens: Mapping[str, Sequence[Any]], padding_lengths: Mapping[str, int]
    ) -> dict[str, Tensor]:
        """Ids of (padding length) tokens under each key, zero at padding; AllenNLP 1 and 2."""
        return {key: self._padded(rows, padding_lengths[key]) for key, rows in tokens.items()}

    def as_padded_tensor(
        self,
        tokens: Mapping[str, Sequence[Any]],
        desired_num_tokens: Mapping[str, int],
        padding_lengths: Mapping[str, int],
    ) -> dict[str, Tensor]:
        """The same in 0.9."""
        return {key: self._padded(rows, desired_num_tokens[key]) for key, rows in tokens.items()}

    def pad_token_sequence(self, tokens: Any, desired_num_tokens: Any, padding_lengths: Mapping[str, int]) -> Any:
        """The same as lists, before 0.9: of one sequence, or of a dictionary of sequences."""
        if isinstance(tokens, Mapping):
            return {key: self._padded(rows, desired_num_tokens[key]).tolist() for key, rows in tokens.items()}
        return self._padded(tokens, desired_num_tokens).tolist()

    def _padded(self, rows: Sequence[Any], n: int) -> Tensor:
        """(n, *token_shape): the first n rows, then zeros."""
        ids = torch.zeros(n, *self.token_shape, dtype=torch.long)
        for place, row in enumerate(rows[:n]):
            ids[place] = torch.as_tensor(row)
        return ids

    def __eq__(self, other: object) -> bool:
        """Indexers of one class with the same settings are equal."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


class ELMoTokenCharactersIndexer(TokenIndexer):
    """Tokens to rows of 50 character ids. Tokens are strings, or objects with `text`."""

    key = "elmo_tokens"
    token_shape = (MAX_CHARACTERS,)

    def __init__(
        self,
        namespace: str = "elmo_characters",
        tokens_to_add: Mapping[str, int] | None = None,
        token_min_padding_length: int = 0,
    ) -> None:
        super().__init__(token_min_padding_length)
        self._namespace = namespace
        self._mapper = ELMoCharacterMapper(tokens_to_add)

    def token_to_indices(self, token: Any, vocabulary: Any = None) -> list[int]:
        """The row of one token, as before AllenNLP 0.8."""
        return self._mapper.convert_word_to_char_ids(_text(token, type(self).__name__))


class SingleIdTokenIndexer(TokenIndexer):
    """Tokens to word ids of a vocabulary namespace. Tokens are strings, or objects with `text` or `text_id`."""

    def __init__(
        self, namespace: str | None = "tokens", lowercase_tokens: bool = False, token_min_padding_length: int = 0
    ) -> None:
        super().__init__(token_min_padding_length)
        self.namespace, self.lowercase_tokens = namespace, lowercase_tokens

    def count_vocab_items(self, token: Any, counter: dict[str, dict[str, int]]) -> None:
        """Count a token for the vocabulary, unless it has its own id."""
        if self.namespace is not None and getattr(token, "text_id", None) is None:
            counts, word = counter.setdefault(self.namespace, {}), self._word(token)
            counts[word] = counts.get(word, 0) + 1

    def token_to_indices(self, token: Any, vocabulary: Any = None) -> int:
        """The id of one token."""
        own = getattr(token, "text_id", None)
        if own is not None:
            return int(own)
        if self.namespace is None or vocabulary is None:
            raise ConfigError(f"SingleIdTokenIndexer: expected a vocabulary or a token with text_id, found {token!r}")
        return int(vocabulary.get_token_index(self._word(token), self.namespace))

    def _word(self, token: Any) -> str:
        text = _text(token, type(self).__name__)
        return text.lower() if self.lowercase_tokens else text


def _text(token: Any, indexer: str) -> str:
    text = token if isinstance(token, str) else getattr(token, "text", None)
    if text is None:
        raise ConfigError(f"{indexer}: expected a token with its text, found {token!r}")
    return str(text)
