"""Files of word vectors in every format, and broken ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compressed import SUFFIXES, compress

from elmokit.disk.limits import Limits
from elmokit.errors import FormatError, InputError
from elmokit.text.word_vectors import read_vectors

WORDS = ["the", ".", "Berlin", "berlin", "naïve"]
VECTORS = np.arange(15, dtype=np.float32).reshape(5, 3) / 8 - 1


def glove(words: list[str] = WORDS, vectors: np.ndarray = VECTORS) -> bytes:
    rows = zip(words, vectors, strict=True)
    return "".join(f"{word} {' '.join(f'{x:.5f}' for x in vector)}\n" for word, vector in rows).encode()


def word2vec_text() -> bytes:
    return b"5 3\n" + glove().replace(b"\n", b" \n")  # the original tool ends lines with a space


def word2vec_binary(*, newlines: bool = True) -> bytes:
    rows = zip(WORDS, VECTORS, strict=True)
    end = b"\n" if newlines else b""
    return b"5 3\n" + b"".join(word.encode() + b" " + vector.tobytes() + end for word, vector in rows)


FORMATS = {
    "glove": glove(),
    "word2vec text": word2vec_text(),
    "word2vec binary": word2vec_binary(),
    "gensim binary": word2vec_binary(newlines=False),
}


def write(folder: Path, content: bytes, suffix: str = "") -> Path:
    path = folder / f"vectors{suffix}"
    path.write_bytes(compress(content, suffix))
    return path


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_gives_the_same(tmp_path: Path, format: str) -> None:
    found = read_vectors(write(tmp_path, FORMATS[format]), [])
    assert found.words == WORDS
    np.testing.assert_allclose(found.vectors, VECTORS, atol=1e-5)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("format", ["glove", "word2vec binary"])
def test_compressed(tmp_path: Path, suffix: str, format: str) -> None:
    path = write(tmp_path, FORMATS[format], suffix)
    assert read_vectors(path, []).words == WORDS
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises((InputError, FormatError), match="vectors"):
        read_vectors(path, [])


@pytest.mark.parametrize("format", FORMATS)
def test_wanted_words_and_their_lower_case_are_kept(tmp_path: Path, format: str) -> None:
    path = write(tmp_path, FORMATS[format])
    assert read_vectors(path, ["BERLIN"], frequent=1).words == ["the", "berlin"]
    assert read_vectors(path, ["Berlin", "absent", "naïve"], frequent=0).words == ["Berlin", "berlin", "naïve"]


def test_the_first_of_two_vectors_counts(tmp_path: Path) -> None:
    found = read_vectors(write(tmp_path, b"a 1 2\nb 3 4\na 5 6\n"), [])
    assert found.words == ["a", "b"] and found.vectors.tolist() == [[1, 2], [3, 4]]


def test_a_word_may_have_spaces_in_it(tmp_path: Path) -> None:
    found = read_vectors(write(tmp_path, b"a 1 2\n. . . 3 4\nat name@mail.com 5 6\n"), [])
    assert found.words == ["a", ". . .", "at name@mail.com"]
    assert found.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_binary_file_larger_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.text.word_vectors._CHUNK", 7)
    found = read_vectors(write(tmp_path, word2vec_binary()), [])
    assert found.words == WORDS and np.array_equal(found.vectors, VECTORS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected lines of a word and its numbers"),
        (b"a\nb\n", "expected lines of a word and its numbers"),
        (b"a 1 2\nb 3\n", r"expected 2 numbers after a word, found 1 in row 2: 'b 3'"),
        (b"a 1 2\nb x y\n", r"expected 2 numbers after 'b', found 'x y'"),
        (b"a 1 2\nb 1\t2 3\n", r"expected 2 numbers after 'b', found"),
        (b"a 1 nan\n", r"expected finite numbers, found others after 'a'"),
        (b"3 2\na 1 2\nb 3 4\n", "expected 3 words, as its first line says, found 2"),
        (b"1 2\na 1 2\nb 3 4\n", "expected 1 words, as its first line says, found 2"),
        (word2vec_binary()[:-6], "expected 5 words, as its first line says, found 4"),
        (b"5 0\n", "columns, found 0"),
        (b"5 999999999\na \x00\x01", "columns, found 999,999,999"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read_vectors(write(tmp_path, content), [])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"a" * 5000, b"a 1 2\n" + b"b" * 5000 + b" 1 2\n", b"5 3\n" + b"b" * 5000])
def test_lines_and_words_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("elmokit.disk.limits._limits", Limits(line=1000))
    monkeypatch.setattr("elmokit.text.word_vectors._CHUNK", 100)
    with pytest.raises(FormatError, match=r"is longer than 1,000 bytes; .* raise the limits"):
        read_vectors(write(tmp_path, content), [])


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_vectors(tmp_path / "absent", [])
