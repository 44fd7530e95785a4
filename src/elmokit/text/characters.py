"""Character ids of words: UTF-8 bytes for the published models, code points for ELMoForManyLangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError, FormatError, InputError

BOS = "<S>"
EOS = "</S>"
UNK = "<UNK>"

_BYTE_BOS, _BYTE_EOS, _BYTE_BOW, _BYTE_EOW, _BYTE_PAD = 257, 258, 259, 260, 261  # shifted by one, see ByteCharacters


class ByteCharacters:
    """UTF-8 byte encoder. Row of a word: `[start of word, first M - 2 UTF-8 bytes, end of word, pad, pad, ...]`.

    Ids are the published ones plus one (1 to 261); 0 is for padding tokens. The words `<S>` and `</S>` get the rows of
    the sentence boundaries. Lone surrogates, which have no UTF-8 form, are dropped.
    """

    begin = BOS
    end = EOS

    def __init__(self, max_characters: int = 50) -> None:
        _check_max_characters(max_characters)
        self.max_characters = max_characters

    def encode(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Character ids of each word: (n, M)."""
        _check_words(words)
        limit = self.max_characters - 2
        encoded = [_first_bytes(word, limit) for word in words]
        codes = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int64) + 1
        rows = _rows(codes, encoded, self.max_characters, first=_BYTE_BOW, last=_BYTE_EOW, pad=_BYTE_PAD)
        _write_mark(rows, words, BOS, [_BYTE_BOW, _BYTE_BOS, _BYTE_EOW], _BYTE_PAD)
        _write_mark(rows, words, EOS, [_BYTE_BOW, _BYTE_EOS, _BYTE_EOW], _BYTE_PAD)
        return rows


class CodePointCharacters:
    """Code-point encoder. Row of a word: `[<eow>, first M - 2 code points, <bow>, <pad>, <pad>, ...]`, as alphabet ids.

    The word boundaries are swapped, as in the training of the ELMoForManyLangs models. Code points outside the alphabet
    become `<oov>`. The words `<bos>` and `<eos>` get the rows of the sentence boundaries.
    """

    begin = "<bos>"
    end = "<eos>"

    def __init__(self, alphabet: Mapping[str, int], max_characters: int = 50) -> None:
        _check_max_characters(max_characters)
        missing = [mark for mark in ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>") if mark not in alphabet]
        if missing:
            raise FormatError(f"char.dic: expected the ELMoForManyLangs special tokens, found no {', '.join(missing)}")
        self.max_characters = max_characters
        self._alphabet = alphabet
        # longer items are special tokens, which no single code point matches
        pairs = sorted((ord(item), index) for item, index in alphabet.items() if len(item) == 1)
        self._code_points = np.array([code_point for code_point, _ in pairs] or [0], dtype=np.uint32)
        self._ids = np.array([index for _, index in pairs] or [alphabet["<oov>"]], dtype=np.int64)

    def encode(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Character ids of each word: (n, M)."""
        _check_words(words)
        first, last, pad = self._alphabet["<eow>"], self._alphabet["<bow>"], self._alphabet["<pad>"]
        cut = [word[: self.max_characters - 2] for word in words]
        code_points = np.frombuffer("".join(cut).encode("utf-32-le", "surrogatepass"), dtype="<u4")
        nearest = np.searchsorted(self._code_points, code_points).clip(max=len(self._code_points) - 1)
        known = self._code_points[nearest] == code_points
        codes = np.where(known, self._ids[nearest], self._alphabet["<oov>"])
        rows = _rows(codes, cut, self.max_characters, first=first, last=last, pad=pad)
        for mark in (self.begin, self.end):
            _write_mark(rows, words, mark, [first, self._alphabet[mark], last], pad)
        return rows


Characters = ByteCharacters | CodePointCharacters  # both: `begin`, `end`, `max_characters`, `encode`


def characters_of(config: ModelConfig, alphabet: Mapping[str, int] | None) -> Characters | None:
    """Character encoder of a model; None if the model reads whole words only."""
    if config.char_cnn is None:
        return None
    if config.char_cnn.alphabet == "bytes":
        return ByteCharacters(config.char_cnn.max_characters)
    if alphabet is None:
        raise FormatError("model: expected an alphabet for a model that reads code points, found none")
    return CodePointCharacters(alphabet, config.char_cnn.max_characters)


def _first_bytes(word: str, limit: int) -> bytes:
    """The first `limit` bytes of a word's UTF-8 form, without encoding the rest of a very long word."""
    encoded = word[:limit].encode("utf-8", "ignore")
    start = step = limit
    while len(encoded) < limit and start < len(word):  # only after dropped lone surrogates
        encoded += word[start : start + step].encode("utf-8", "ignore")
        start, step = start + step, 2 * step
    return encoded[:limit]


def _rows(
    codes: NDArray[np.int64], words: Sequence[str | bytes], width: int, *, first: int, last: int, pad: int
) -> NDArray[np.int64]:
    """Split the concatenated `codes` of the words into padded rows: (n, width)."""
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    rows = np.full((len(words), width), pad, dtype=np.int64)
    rows[:, 0] = first
    inner = rows[:, 1:-1]
    inner[np.arange(width - 2) < lengths[:, None]] = codes  # assigned row by row, the order of `codes`
    rows[np.arange(len(words)), lengths + 1] = last
    return rows


def _write_mark(rows: NDArray[np.int64], words: Sequence[str], mark: str, ids: list[int], pad: int) -> None:
    places = [place for place, word in enumerate(words) if word == mark]
    if places:
        rows[places] = pad
        rows[places, :3] = ids


def _check_max_characters(max_characters: int) -> None:
    if max_characters < 3:
        raise ConfigError(f"max_characters: expected at least 3 (two boundaries and one id), found {max_characters}")


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        if not isinstance(word, str):
            raise InputError(f"words: expected strings, found {word!r} ({type(word).__name__}); convert with str()")
