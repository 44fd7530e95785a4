"""Words to character ids: UTF-8 bytes for the published models, code points for ELMoForManyLangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError, FormatError, InputError

BOS = "<S>"
EOS = "</S>"
UNK = "<UNK>"

_BYTE_BOS, _BYTE_EOS, _BYTE_BOW, _BYTE_EOW, _BYTE_PAD = 257, 258, 259, 260, 261  # already shifted by one


class ByteCharacters:
    """A word is the row `[begin of word, its first M - 2 UTF-8 bytes, end of word, pad, pad, ...]`.

    Ids are the published ones plus one (1 to 261), which leaves 0 to rows that stand for no word at all. The words
    `<S>` and `</S>` become the rows of the sentence marks. Lone surrogates, which have no UTF-8 form, vanish.
    """

    begin = BOS
    end = EOS

    def __init__(self, max_characters: int = 50) -> None:
        _require_room(max_characters)
        self.max_characters = max_characters

    def encode(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Character ids of each word: (n, M)."""
        _require_words(words)
        room = self.max_characters - 2
        encoded = [_first_bytes(word, room) for word in words]
        codes = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int64) + 1
        rows = _rows(codes, encoded, self.max_characters, first=_BYTE_BOW, last=_BYTE_EOW, pad=_BYTE_PAD)
        _write_mark(rows, words, BOS, [_BYTE_BOW, _BYTE_BOS, _BYTE_EOW], _BYTE_PAD)
        _write_mark(rows, words, EOS, [_BYTE_BOW, _BYTE_EOS, _BYTE_EOW], _BYTE_PAD)
        return rows


class CodePointCharacters:
    """A word is the row `[<eow>, its first M - 2 code points, <bow>, <pad>, <pad>, ...]` of an alphabet's ids.

    The word marks are swapped: so were they when the ELMoForManyLangs models were trained. Code points outside the
    alphabet become `<oov>`. The words `<bos>` and `<eos>` become the rows of the sentence marks.
    """

    begin = "<bos>"
    end = "<eos>"

    def __init__(self, alphabet: Mapping[str, int], max_characters: int = 50) -> None:
        _require_room(max_characters)
        missing = [mark for mark in ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>") if mark not in alphabet]
        if missing:
            raise FormatError(f"char.dic: expected the marks of ELMoForManyLangs, found no {', '.join(missing)}")
        self.max_characters = max_characters
        self._alphabet = alphabet
        # longer items are the marks, which no single code point can match
        pairs = sorted((ord(item), index) for item, index in alphabet.items() if len(item) == 1)
        self._code_points = np.array([code_point for code_point, _ in pairs] or [0], dtype=np.uint32)
        self._ids = np.array([index for _, index in pairs] or [alphabet["<oov>"]], dtype=np.int64)

    def encode(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Character ids of each word: (n, M)."""
        _require_words(words)
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
    """How a model of this shape spells words; None where it reads no characters, but whole words alone."""
    if config.char_cnn is None:
        return None
    if config.char_cnn.alphabet == "bytes":
        return ByteCharacters(config.char_cnn.max_characters)
    if alphabet is None:
        raise FormatError("model: expected an alphabet, since it reads code points, found none")
    return CodePointCharacters(alphabet, config.char_cnn.max_characters)


def _first_bytes(word: str, room: int) -> bytes:
    """The first `room` bytes of a word's UTF-8 form, without encoding the rest of a very long word."""
    encoded = word[:room].encode("utf-8", "ignore")
    start = step = room
    while len(encoded) < room and start < len(word):  # only lone surrogates, which vanish, bring us here
        encoded += word[start : start + step].encode("utf-8", "ignore")
        start, step = start + step, 2 * step
    return encoded[:room]


def _rows(
    codes: NDArray[np.int64], words: Sequence[str | bytes], width: int, *, first: int, last: int, pad: int
) -> NDArray[np.int64]:
    """Lay the words' codes, one after another in `codes`, into rows: (n, width)."""
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    rows = np.full((len(words), width), pad, dtype=np.int64)
    rows[:, 0] = first
    inner = rows[:, 1:-1]
    inner[np.arange(width - 2) < lengths[:, None]] = codes  # a mask is filled row by row, the order of `codes`
    rows[np.arange(len(words)), lengths + 1] = last
    return rows


def _write_mark(rows: NDArray[np.int64], words: Sequence[str], mark: str, ids: list[int], pad: int) -> None:
    places = [place for place, word in enumerate(words) if word == mark]
    if places:
        rows[places] = pad
        rows[places, :3] = ids


def _require_room(max_characters: int) -> None:
    if max_characters < 3:
        raise ConfigError(f"max_characters: expected at least 3 (two marks and a character), found {max_characters}")


def _require_words(words: Sequence[str]) -> None:
    for word in words:
        if not isinstance(word, str):
            raise InputError(f"words: expected strings, found {word!r} ({type(word).__name__}); convert with str()")
