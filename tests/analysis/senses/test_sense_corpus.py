"""The unified format: what is read, and what is said of files that are not in order."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from sense_files import BANK_MONEY, BANK_RIVER, TAKE_PLACE, write_corpus

from elmokit.analysis.senses.sense_corpus import Instance, find_corpora, read_corpus
from elmokit.errors import InputError

SENTENCES = [
    ["The", ("bank", "bank", "NOUN", [BANK_RIVER]), "of", "the", "river"],
    [
        ("It &amp; she", "Take_Place", "VERB", [TAKE_PLACE]),
        ("banks", "bank", "NOUN", [BANK_MONEY, BANK_RIVER]),
        "New York",
    ],
    [],
]
EXPECTED = [
    Instance("s0.t1", "bank", "NOUN", 1, 2, (BANK_RIVER,)),
    Instance("s1.t0", "take_place", "VERB", 5, 8, (TAKE_PLACE,)),
    Instance("s1.t1", "bank", "NOUN", 8, 9, (BANK_MONEY, BANK_RIVER)),
]


@pytest.fixture
def xml(tmp_path: Path) -> Path:
    return write_corpus(tmp_path, "small", SENTENCES)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_what_is_read(xml: Path) -> None:
    corpus = read_corpus(xml)
    assert corpus.name == "small"
    assert corpus.sentences == [
        ["The", "bank", "of", "the", "river"],
        ["It", "&", "she", "banks", "New", "York"],
        [],
    ]
    assert corpus.instances == EXPECTED
    assert corpus.files == (xml, xml.with_name("small.gold.key.txt"))


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("keys_too", [False, True])
def test_compressed(xml: Path, suffix: str, compress: object, keys_too: bool) -> None:
    for path in [xml, xml.with_name("small.gold.key.txt")][: 1 + keys_too]:
        path.with_name(path.name + suffix).write_bytes(compress(path.read_bytes()))  # type: ignore[operator]
        path.unlink()
    corpus = read_corpus(xml.with_name(xml.name + suffix))
    assert (corpus.name, corpus.instances) == ("small", EXPECTED)


def test_keys_of_another_name(xml: Path) -> None:
    xml.with_name("small.gold.key.txt").rename(xml.with_name("k.txt"))
    assert read_corpus(xml, xml.with_name("k.txt")).instances == EXPECTED
    with pytest.raises(InputError, match=r"expected its keys in small\.gold\.key\.txt in the same folder, found"):
        read_corpus(xml)


def test_instances_without_a_key(xml: Path) -> None:
    replace(xml.with_name("small.gold.key.txt"), f"s1.t0 {TAKE_PLACE}\n", "")
    with pytest.raises(InputError, match=r"small\.data\.xml: line 12: instance s1\.t0 has no key in .*small"):
        read_corpus(xml)


def test_keys_without_an_instance(xml: Path) -> None:
    with open(xml.with_name("small.gold.key.txt"), "a") as file:
        file.write(f"s9.t9 {TAKE_PLACE}\n")
    with pytest.raises(
        InputError, match=r"1 of 4 keys are of instances that .* does not have, such as s9\.t9; do both"
    ):
        read_corpus(xml)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("s9.t9", "line 4: expected an id and sense keys"),
        ("s9.t9 bank.n.01", "line 4: expected an id and sense keys"),
        (f"s0.t1 {BANK_MONEY}", r"line 4: expected every instance once, found s0\.t1 again"),
    ],
)
def test_broken_keys(xml: Path, line: str, message: str) -> None:
    with open(xml.with_name("small.gold.key.txt"), "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(InputError, match=message):
        read_corpus(xml)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</text>", "", "line 19: expected well-formed XML, found mismatched tag"),
        ("&amp;", "&entity;", "line 12: expected well-formed XML, found undefined entity"),
        ('pos="NOUN"', 'pos="N"', r"line 6: expected pos NOUN, VERB, ADJ, ADV, found 'N' at instance s0\.t1"),
        ('lemma="bank" pos="NOUN"', "", "line 6: expected an instance with lemma and pos"),
        (">bank<", "> <", r"line 6: expected an instance with text, found none at s0\.t1"),
        ('id="s1.t1"', 'id="s0.t1"', r"line 13: expected every instance once, found s0\.t1 again"),
        ('<sentence id="s0">', "<p>", "line 5: expected <wf> in a <sentence>, found it outside"),
        (">of</wf>", ">of", "line 8: expected <wf> in a <sentence>, found it in another word"),
        ("</sentence>", "", "line 11: expected the end of the sentence before, found <sentence> in it"),
    ],
)
def test_broken_xml(xml: Path, old: str, new: str, message: str) -> None:
    replace(xml, old, new)
    with pytest.raises(InputError, match=message):
        read_corpus(xml)


def test_truncated(xml: Path) -> None:
    """At any byte: a message, never a smaller data set."""
    content = xml.read_bytes()
    for size in range(0, len(content) - 2, 7):
        xml.write_bytes(content[:size])
        with pytest.raises(InputError, match="expected well-formed XML"):
            read_corpus(xml)


def test_truncated_archives(xml: Path) -> None:
    path = xml.with_name(xml.name + ".gz")
    path.write_bytes(gzip.compress(xml.read_bytes())[:-20])
    with pytest.raises(InputError, match="damaged or cut off"):
        read_corpus(path)


def test_entity_bombs_are_not_even_read(xml: Path) -> None:
    bomb = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    replace(xml, "<corpus", f'<!DOCTYPE x [<!ENTITY a0 "ha">{bomb}]>\n<corpus')
    replace(xml, "&amp;", "&a11;")
    with pytest.raises(InputError, match=r"line 2: a document type declaration \(<!DOCTYPE ...>\) is not allowed"):
        read_corpus(xml)


@pytest.mark.parametrize("content", ["", "<corpus></corpus>", "no XML"])
def test_other_files(xml: Path, content: str) -> None:
    xml.write_text(content)
    with pytest.raises(InputError, match="expected"):
        read_corpus(xml)
    with pytest.raises(InputError, match="expected a file of sense-annotated text, found nothing there"):
        read_corpus(xml.with_name("no.data.xml"))


def test_folders(tmp_path: Path) -> None:
    for name in ("senseval2", "semeval2007", "ALL"):
        (tmp_path / name).mkdir()
        write_corpus(tmp_path / name, name, SENTENCES)
    (tmp_path / "semeval2007" / "semeval2007.data.xml").rename(tmp_path / "semeval2007" / "semeval2007.data.xml.gz")
    found = find_corpora([tmp_path])
    assert [path.name for path in found] == ["semeval2007.data.xml.gz", "senseval2.data.xml"]
    assert find_corpora([tmp_path / "ALL"]) == [tmp_path / "ALL" / "ALL.data.xml"]
    with pytest.raises(InputError, match="found senseval2 more than once"):
        find_corpora([tmp_path, tmp_path / "senseval2"])
    with pytest.raises(InputError, match="ALL is the union of the other data sets"):
        find_corpora([tmp_path, tmp_path / "ALL"])
    with pytest.raises(InputError, match=r"expected files \*\.data\.xml, also compressed, found none"):
        (tmp_path / "empty").mkdir()
        find_corpora([tmp_path / "empty"])
