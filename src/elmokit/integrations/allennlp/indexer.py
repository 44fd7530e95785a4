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


def _mark(character: int) -> list[int]:
    """Row of a special token, before the shift by one."""
    return [258, character, 259] + [260] * (MAX_CHARACTERS - 3)


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


class ELMoTokenCharactersIndexer(FromParams):
    """Tokens to rows of 50 character ids, under the key that AllenNLP 2 (`elmo_tokens`) or 0.9 (`index_name`) uses.

    Tokens are strings, or objects with `text`.
    """

    def __init__(
        self,
        namespace: str = "elmo_characters",
        tokens_to_add: Mapping[str, int] | None = None,
        token_min_padding_length: int = 0,
    ) -> None:
        self._namespace = namespace
        self._mapper = ELMoCharacterMapper(tokens_to_add)
        self._token_min_padding_length = token_min_padding_length

    def count_vocab_items(self, token: Any, counter: dict[str, dict[str, int]]) -> None:
        """Do nothing: characters are bytes."""

    def get_empty_token_list(self) -> dict[str, list[Any]]:
        """The indices of no tokens."""
        return {"elmo_tokens": []}

    def tokens_to_indices(
        self, tokens: Iterable[Any], vocabulary: Any = None, index_name: str = "elmo_tokens"
    ) -> dict[str, list[list[int]]]:
        """Rows of character ids under one key."""
        return {index_name: [self.token_to_indices(token) for token in tokens]}

    def token_to_indices(self, token: Any, vocabulary: Any = None) -> list[int]:
        """The row of one token, as before AllenNLP 0.8."""
        text = token if isinstance(token, str) else getattr(token, "text", None)
        if text is None:
            raise ConfigError(f"ELMoTokenCharactersIndexer: expected a token with its text, found {token!r}")
        return self._mapper.convert_word_to_char_ids(text)

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
        self, tokens: Mapping[str, Sequence[Sequence[int]]], padding_lengths: Mapping[str, int]
    ) -> dict[str, Tensor]:
        """(padding length, 50) under each key, zero at padding; AllenNLP 1 and 2."""
        return {key: _padded(rows, padding_lengths[key]) for key, rows in tokens.items()}

    def as_padded_tensor(
        self,
        tokens: Mapping[str, Sequence[Sequence[int]]],
        desired_num_tokens: Mapping[str, int],
        padding_lengths: Mapping[str, int],
    ) -> dict[str, Tensor]:
        """The same in 0.9."""
        return {key: _padded(rows, desired_num_tokens[key]) for key, rows in tokens.items()}

    def pad_token_sequence(self, tokens: Any, desired_num_tokens: Any, padding_lengths: Mapping[str, int]) -> Any:
        """The same as lists, before 0.9: of one sequence, or of a dictionary of sequences."""
        if isinstance(tokens, Mapping):
            return {key: _padded(rows, desired_num_tokens[key]).tolist() for key, rows in tokens.items()}
        return _padded(tokens, desired_num_tokens).tolist()

    def __eq__(self, other: object) -> bool:
        """Indexers with the same settings are equal."""
        return isinstance(other, ELMoTokenCharactersIndexer) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


def _padded(rows: Sequence[Sequence[int]], n: int) -> Tensor:
    """(n, 50): the first n rows, then zeros."""
    ids = torch.zeros(n, MAX_CHARACTERS, dtype=torch.long)
    for place, row in enumerate(rows[:n]):
        ids[place] = torch.as_tensor(row)
    return ids
