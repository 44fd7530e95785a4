"""The vocabulary of a corpus: order, marks, bounds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from elmokit.errors import ConfigError, InputError
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.output_vocabulary import build_vocabulary, check_vocabulary, count_words
from elmokit.text.vocabulary import Vocabulary


def corpus_of(folder: Path, text: str) -> Corpus:
    (folder / "a.txt").write_text(text, encoding="utf-8")
    return Corpus(folder / "a.txt")


def test_words_are_counted_in_all_files(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("a c\n", encoding="utf-8")
    corpus_of(tmp_path, "a b\n\nb a b\n")
    seen: list[float] = []
    assert count_words(Corpus(tmp_path / "*.txt"), progress=seen.append) == Counter(a=3, b=3, c=1)
    assert seen == [1.0]


def test_marks_first_then_by_frequency_then_by_word(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "b a c c\nd é d Z a b e\n")
    words = build_vocabulary(corpus, 100).words
    assert words == ("<S>", "</S>", "<UNK>", "a", "b", "c", "d", "Z", "e", "é")
    assert build_vocabulary(corpus, 5).words == words[:5]


def test_marks_in_the_text_are_not_words_of_their_own(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "<S> a <UNK> <UNK> !!!MAXTERMID </S>\n<S> b b </S>\n")
    vocabulary = build_vocabulary(corpus, 100)
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "b", "a")
    vocabulary.write(tmp_path / "vocabulary.txt")
    assert Vocabulary.from_file(tmp_path / "vocabulary.txt").words == vocabulary.words


def test_what_a_vocabulary_file_cannot_hold_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one,two , three,,four\r\n", encoding="utf-8")
    corpus = Corpus(tmp_path / "a.txt", tokenizer=lambda text: text.split(","))
    assert build_vocabulary(corpus, 10).words[3:] == ("four", "one")


def test_rare_words_are_forgotten_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.pretrain.output_vocabulary._SENTENCES_AT_A_TIME", 10)
    corpus = corpus_of(tmp_path, "\n".join(f"the the cat r{i}" for i in range(1000)))
    counts = count_words(corpus, max_distinct=50)
    assert counts["the"] == 2000 and counts["cat"] == 1000
    assert len(counts) <= 50
    assert len(count_words(corpus, max_distinct=1002)) == 1002  # exact below the bound


def test_sizes_and_corpora_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vocabulary_size: expected at least 4"):
        build_vocabulary(corpus_of(tmp_path, "a\n"), 3)
    with pytest.raises(InputError, match=r"expected words, found none in .*a\.txt; check"):
        build_vocabulary(corpus_of(tmp_path, "\n<S> </S>\n"), 10)


def test_a_vocabulary_without_its_marks_is_refused() -> None:
    check_vocabulary(Vocabulary(["<S>", "</S>", "<UNK>", "the"]))
    check_vocabulary(Vocabulary(["</S>", "<S>", "<UNK>", "the"]))  # the order that published files have
    with pytest.raises(ConfigError, match="expected <UNK> in the first three lines, found no such line; start the fi"):
        check_vocabulary(Vocabulary(["<S>", "</S>", "the"]))
    with pytest.raises(ConfigError, match="expected </S> in the first three lines, found it in line 4"):
        check_vocabulary(Vocabulary(["<S>", "<UNK>", "the", "</S>"]))
    with pytest.raises(ConfigError, match="expected <S>"):
        check_vocabulary(Vocabulary([]))
