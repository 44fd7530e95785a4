"""Character ids against a slow twin that is written letter by letter from the format."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.text.characters import BOS, EOS, UNK, ByteCharacters, CodePointCharacters

any_text = st.text(st.characters(), max_size=80)  # surrogates, NUL and astral characters included
widths = st.integers(3, 60)

ALPHABET = {letter: place for place, letter in enumerate("abcdeé漢😀\x00\ud800", start=3)}
ALPHABET |= {"<bos>": 0, "<eos>": 1, "<oov>": 2, "<pad>": 20, "<bow>": 21, "<eow>": 22}


def slow_bytes(word: str, width: int) -> list[int]:
    """The row of one word, published ids first, one added at the end."""
    if word == "<S>":
        ids = [258, 256, 259]
    elif word == "</S>":
        ids = [258, 257, 259]
    else:
        letters = [letter for letter in word if not "\ud800" <= letter <= "\udfff"]
        utf8 = [byte for letter in letters for byte in letter.encode()]
        ids = [258, *utf8[: width - 2], 259]
    ids += [260] * (width - len(ids))
    return [index + 1 for index in ids]


def slow_code_points(word: str, width: int) -> list[int]:
    """The row of one word: the mark of the word's end comes first."""
    if word in ("<bos>", "<eos>"):
        inner = [ALPHABET[word]]
    else:
        inner = [ALPHABET.get(letter, ALPHABET["<oov>"]) for letter in word[: width - 2]]
    row = [ALPHABET["<eow>"], *inner, ALPHABET["<bow>"]]
    return row + [ALPHABET["<pad>"]] * (width - len(row))


@given(st.lists(any_text | st.sampled_from([BOS, EOS, UNK, ""]), max_size=8), widths)
def test_bytes_match_the_slow_twin(words: list[str], width: int) -> None:
    rows = ByteCharacters(width).encode(words)
    assert rows.dtype == np.int64 and rows.shape == (len(words), width)
    assert rows.tolist() == [slow_bytes(word, width) for word in words]


@given(st.lists(any_text | st.text("abcdeé漢😀\x00x") | st.sampled_from(["<bos>", "<eos>", "<pad>", ""])), widths)
def test_code_points_match_the_slow_twin(words: list[str], width: int) -> None:
    rows = CodePointCharacters(ALPHABET, width).encode(words)
    assert rows.dtype == np.int64 and rows.shape == (len(words), width)
    assert rows.tolist() == [slow_code_points(word, width) for word in words]


def test_rows_worked_by_hand() -> None:
    rows = ByteCharacters(8).encode(["I", "Alpha", "Alphabet", BOS, EOS, "", "é", "日本語"])
    assert rows.tolist() == [
        [259, 74, 260, 261, 261, 261, 261, 261],
        [259, 66, 109, 113, 105, 98, 260, 261],
        [259, 66, 109, 113, 105, 98, 99, 260],  # cut to six bytes
        [259, 257, 260, 261, 261, 261, 261, 261],
        [259, 258, 260, 261, 261, 261, 261, 261],
        [259, 260, 261, 261, 261, 261, 261, 261],
        [259, 0xC3 + 1, 0xA9 + 1, 260, 261, 261, 261, 261],
        [259, 0xE6 + 1, 0x97 + 1, 0xA5 + 1, 0xE6 + 1, 0x9C + 1, 0xAC + 1, 260],
    ]


def test_the_cut_may_split_a_code_point() -> None:
    assert ByteCharacters(4).encode(["é漢"])[0].tolist() == [259, 0xC3 + 1, 0xA9 + 1, 260]
    assert ByteCharacters(4).encode(["漢"])[0].tolist() == [259, 0xE6 + 1, 0xBC + 1, 260]


def test_letters_behind_many_lone_surrogates_are_found() -> None:
    word = "\ud800" * 1000 + "ab" + "\udfff" * 7 + "c"
    assert ByteCharacters(6).encode([word])[0].tolist() == [259, 98, 99, 100, 260, 261]


def test_the_published_width_is_the_default() -> None:
    assert ByteCharacters().encode(["x" * 100])[0, [48, 49]].tolist() == [121, 260]


def test_ids_stay_within_the_table_and_never_mean_padding() -> None:
    rows = ByteCharacters().encode([chr(i) for i in range(256)] + [BOS, EOS, ""])
    assert rows.min() >= 1 and rows.max() == 261


def test_no_words() -> None:
    assert ByteCharacters(7).encode([]).shape == (0, 7)
    assert CodePointCharacters(ALPHABET, 7).encode([]).shape == (0, 7)


def test_an_alphabet_of_marks_alone_knows_no_letter() -> None:
    marks = {mark: place for place, mark in enumerate(["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"])}
    assert CodePointCharacters(marks, 5).encode(["a\x00"])[0].tolist() == [5, 2, 2, 4, 3]


@pytest.mark.parametrize("characters", [ByteCharacters(50), CodePointCharacters(ALPHABET, 50)])
def test_a_huge_word_costs_next_to_nothing(characters: ByteCharacters | CodePointCharacters) -> None:
    word = "a" * 10_000_000
    tracemalloc.start()
    characters.encode([word])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("characters", [ByteCharacters(50), CodePointCharacters(ALPHABET, 50)])
def test_a_thousand_words_are_fast(characters: ByteCharacters | CodePointCharacters) -> None:
    words = [f"word{place}" for place in range(1000)]
    times = []
    for _ in range(5):
        start = time.perf_counter()
        characters.encode(words)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.02  # about 0.001 on an idle machine


def test_errors_name_the_fix() -> None:
    with pytest.raises(ConfigError, match="at least 3"):
        ByteCharacters(2)
    with pytest.raises(FormatError, match="<bow>"):
        CodePointCharacters(dict.fromkeys(("<bos>", "<eos>", "<oov>", "<pad>", "<eow>"), 0), 50)
    with pytest.raises(InputError, match=r"found 5 \(int\)"):
        ByteCharacters().encode(["a", 5])  # type: ignore[list-item]
