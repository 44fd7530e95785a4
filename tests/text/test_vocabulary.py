"""The conventions of published vocabulary files, and what happens where a file breaks them."""

from __future__ import annotations

from pathlib import Path

import compressed
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import InputError, OutputError
from elmokit.text.vocabulary import MANY_LANGS_MARKS, Vocabulary

LINES = ["<S>\n", "</S>\n", "<UNK>\n", "the\n", "!!!MAXTERMID\n", "  cat \n", "The\n"]


def test_ids_follow_the_lines() -> None:
    vocabulary = Vocabulary.from_lines(LINES)
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "the", "cat", "The")  # !!!MAXTERMID took no id
    assert (vocabulary.begin, vocabulary.end, vocabulary.unknown) == (0, 1, 2)
    ids = vocabulary.ids(["cat", "dog", "The", "THE", "<S>", "!!!MAXTERMID"])
    assert ids.dtype == np.int64 and ids.tolist() == [4, 2, 5, 2, 0, 2]
    assert len(vocabulary) == 6 and "cat" in vocabulary and "dog" not in vocabulary
    assert vocabulary.ids([]).shape == (0,)


def test_marks_are_case_sensitive_and_may_be_absent() -> None:
    vocabulary = Vocabulary.from_lines(["<s>", "</s>", "<unk>", "word"])
    assert (vocabulary.begin, vocabulary.end, vocabulary.unknown) == (None, None, None)
    assert vocabulary.ids(["word", "<s>"]).tolist() == [3, 0]
    with pytest.raises(InputError, match=r"'absent' or <UNK>.*add <UNK>"):
        vocabulary.ids(["word", "absent", "word"])


def test_marks_need_not_come_first() -> None:
    vocabulary = Vocabulary.from_lines(["a", "<UNK>", "</S>", "<S>"])
    assert (vocabulary.begin, vocabulary.end, vocabulary.unknown) == (3, 2, 1)


def test_the_last_of_two_equal_lines_counts() -> None:
    vocabulary = Vocabulary.from_lines(["<UNK>", "twice", "once", "twice"])
    assert len(vocabulary) == 4
    assert vocabulary.ids(["twice"]).tolist() == [3]


def test_a_blank_line_takes_an_id() -> None:
    assert Vocabulary.from_lines(["<UNK>\n", "\n", "a\n"]).ids(["a", ""]).tolist() == [2, 1]


@pytest.mark.parametrize("suffix", ["", *compressed.SUFFIXES])
def test_files_plain_and_compressed(tmp_path: Path, suffix: str) -> None:
    path = compressed.write(tmp_path / f"vocabulary.txt{suffix}", "".join(LINES).replace("cat", "kätzchen"))
    assert Vocabulary.from_file(path).ids(["kätzchen"]).tolist() == [4]


@given(st.lists(st.text(min_size=1).map(str.strip).filter(lambda word: word and not {"\n", "\r"} & set(word))))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    folder = tmp_path_factory.mktemp("vocabulary")
    Vocabulary(words).write(folder / "vocabulary.txt")
    assert Vocabulary.from_file(folder / "vocabulary.txt").words == tuple(words)
    assert [path.name for path in folder.iterdir()] == ["vocabulary.txt"]


@pytest.mark.parametrize("word", ["a\nb", " a", "\u3000", "!!!MAXTERMID", "a\r"])
def test_words_that_would_not_be_read_back_are_refused(tmp_path: Path, word: str) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_text("old\n")
    with pytest.raises(OutputError, match="word 1"):
        Vocabulary(["fine", word]).write(path)
    assert path.read_text() == "old\n"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_text("old\n")
    with pytest.raises(OutputError, match="surrogates"):
        Vocabulary(["fine", "\ud800"]).write(path)
    assert path.read_text() == "old\n" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(OutputError, match="cannot be written"):
        Vocabulary(["fine"]).write(tmp_path / "missing" / "vocabulary.txt")
    with pytest.raises(OutputError, match=r"leave out \.gz"):
        Vocabulary(["fine"]).write(tmp_path / "vocabulary.txt.gz")


def test_other_marks() -> None:
    vocabulary = Vocabulary(["<oov>", "<bos>", "<eos>", "<pad>", "le"], marks=MANY_LANGS_MARKS)
    assert (vocabulary.begin, vocabulary.end, vocabulary.unknown) == (1, 2, 0)
    assert vocabulary.ids(["le", "chat", "<UNK>"]).tolist() == [4, 0, 0]
