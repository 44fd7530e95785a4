"""The reader of CoNLL-2012 coreference columns."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from elmokit.errors import InputError
from elmokit.tasks.coref.document import Document, read_documents


def line(word: str, cell: str = "-", speaker: str = "-", name: str = "doc", separator: str = "\t") -> str:
    return separator.join((name, "0", "0", word, "NN", "*", "-", "-", "-", speaker, "*", cell))


def document(*lines: str, name: str = "doc", part: int = 0) -> str:
    return f"#begin document ({name}); part {part:03}\n" + "\n".join(lines) + "\n#end document\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "file.conll"
    path.write_text(text, encoding="utf-8")
    return path


STORY = document(
    line("The", "(7", "ann"), line("owl", "7)", "ann"), line("'s", speaker="ann"), line("nest", "(3)", "ann"), "",
    line("Its", "(3|(7)", "bob"), line("old", speaker="bob"), line("home", "3)", "bob"), line(".", "-", "bob"),
)  # fmt: skip


def test_sentences_speakers_and_clusters(tmp_path: Path) -> None:
    (found,) = read_documents(write(tmp_path, STORY))
    assert found == Document(
        sentences=[["The", "owl", "'s", "nest"], ["Its", "old", "home", "."]],
        speakers=["ann", "bob"],
        clusters=[[(0, 1), (4, 4)], [(3, 3), (4, 6)]],
        name="doc",
    )
    assert found.tokens[4] == "Its"


def test_brackets_of_one_cluster_may_nest(tmp_path: Path) -> None:
    text = document(line("a", "(1|(1"), line("b", "1)"), line("c", "(2|(1)"), line("d", "2)|1)"))
    (found,) = read_documents(write(tmp_path, text))
    assert found.clusters == [[(0, 1), (0, 3), (2, 2)], [(2, 3)]]


def test_spaces_and_empty_cells(tmp_path: Path) -> None:
    """OntoNotes has spaces, and more columns where a sentence has predicates; LitBank leaves the last cell empty."""
    spaces = document(line("we", "(0)", separator="   "), line("won", "*  -  (V*)  -", separator="  "))
    empty = document("\t".join(["b", "0", "0", "Oh", *"_" * 8, ""]), "\t".join(["b", "0", "1", "Ada", *"_" * 8, "(4)"]))
    first, second = read_documents(write(tmp_path, spaces + "\n" + empty))
    assert (first.sentences, first.clusters) == ([["we", "won"]], [[(0, 0)]])
    assert (second.sentences, second.clusters, second.speakers) == ([["Oh", "Ada"]], [[(1, 1)]], ["-"])


def test_parts_are_documents(tmp_path: Path) -> None:
    text = (
        document(line("a"), name="bn/x")
        + document(line("b"), name="bn/x", part=1)
        + document(line("c"), name="GUM_vlog_y")
    )
    found = read_documents(write(tmp_path, text))
    assert [(d.name, d.genre) for d in found] == [("bn/x", "bn"), ("bn/x part 1", "bn"), ("GUM_vlog_y", "vlog")]
    assert Document([["a"]], name="12_emma").genre == ""


@pytest.mark.parametrize(("suffix", "opener"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed(tmp_path: Path, suffix: str, opener: object) -> None:
    path = tmp_path / f"file.conll{suffix}"
    with opener(path, "wt", encoding="utf-8") as file:  # type: ignore[operator]
        file.write(STORY)
    assert read_documents(path) == read_documents(write(tmp_path, STORY))


BROKEN = {
    "not closed": (document(line("a"), line("b", "(5"), line("c")), r"line 3: expected the bracket \(5 to be closed"),
    "not opened": (document(line("a"), line("b", "5)")), r"line 3: expected the bracket 5\) to be opened"),
    "no bracket": (document(line("a", "5")), r"line 2: expected brackets .*'5'"),
    "no number": (document(line("a", "(x)")), r"line 2: expected brackets .*'\(x\)'"),
    "two bars": (document(line("a", "(1)||(2)")), r"line 2: expected brackets"),
    "few columns": (document(line("a"), "doc\t0\t1\tb\t-"), r"line 3: expected 12 columns or more.*found 5"),
    "no word": (document(line("")), r"line 2: expected a word in column 4"),
    "no begin": (line("a"), r"line 1: expected '#begin document"),
    "odd begin": ("#begin document doc\n", r"line 1: expected '#begin document \(name\); part 000'"),
    "no end": (document(line("a")).replace("#end document\n", ""), r"line 2: expected '#end document'"),
    "no end, a begin": (document(line("a")).replace("#end document\n", "") * 2, r"line 3: expected '#end document'"),
    "two ends": (document(line("a")) + "#end document\n", r"line 4: expected '#begin document.*found '#end document'"),
    "no words": (document(""), r"line 3: expected words in document doc"),
    "nothing": ("\n", r"expected documents"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_files(tmp_path: Path, fault: str) -> None:
    text, message = BROKEN[fault]
    with pytest.raises(InputError, match=message) as caught:
        read_documents(write(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "file.conll")) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "counts"), [("ontogum/dev", (30, 1575, 28119, 3818, 857)), ("litbank/test", (10, 880, 20638, 2832, 807))]
)
def test_counts_of_the_corpora(shared_data: Path, name: str, counts: tuple[int, ...]) -> None:
    documents = read_documents(shared_data / "coref" / f"{name}.conll.xz")
    clusters = [cluster for d in documents for cluster in d.clusters]
    sentences = sum(len(d.sentences) for d in documents)
    tokens = sum(len(d.tokens) for d in documents)
    assert (len(documents), sentences, tokens, sum(map(len, clusters)), len(clusters)) == counts
