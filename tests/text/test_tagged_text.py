"""Tagged text from columns: CoNLL-U by name, other files by number."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from elmokit.errors import ConfigError, InputError
from elmokit.text.tagged_text import read_tagged

CONLLU = """# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\t_
2.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_

1\tmar\tmar\tNOUN\tN\t_\t0\troot\t_\t_
"""
COLUMNS = "-DOCSTART- -X- O\n\nthe DT B\ncat NN I\n\nran VB O\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_conllu_is_read_by_names_without_ranges_and_empty_nodes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conllu", CONLLU)
    text = read_tagged(path, "upos")
    assert text.sentences == [["vamos", "nos"], ["mar"]] and text.tags == ["VERB", "PRON", "NOUN"]
    assert text.words == ["vamos", "nos", "mar"]
    assert list(text.tagged_sentences()) == [(["vamos", "nos"], ["VERB", "PRON"]), (["mar"], ["NOUN"])]
    assert read_tagged(path, "5").tags == read_tagged(path, "xpos").tags == ["V", "P", "N"]
    assert read_tagged(path, "upos", word_column=3).words == ["ir", "nosotros", "mar"]


def test_a_compressed_file_keeps_its_format(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress(CONLLU.encode()))
    assert read_tagged(path, "upos").tags == ["VERB", "PRON", "NOUN"]


def test_other_files_are_read_by_numbers(tmp_path: Path) -> None:
    text = read_tagged(write(tmp_path / "a.txt", COLUMNS), "2")
    assert text.sentences == [["the", "cat"], ["ran"]] and text.tags == ["DT", "NN", "VB"]


@pytest.mark.parametrize(
    ("name", "column"), [("a.txt", "upos"), ("a.txt", "0"), ("a.conllu", "11"), ("a.conllu", "pos")]
)
def test_columns_that_are_not_there(tmp_path: Path, name: str, column: str) -> None:
    path = write(tmp_path / name, CONLLU if name.endswith("u") else COLUMNS)
    with pytest.raises(ConfigError, match=f"column: expected .* for {name}, found '{column}'"):
        read_tagged(path, column)


def test_a_file_without_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected sentences of words with tags, found none"):
        read_tagged(write(tmp_path / "a.txt", "-DOCSTART- -X- O\n\n"), "2")
