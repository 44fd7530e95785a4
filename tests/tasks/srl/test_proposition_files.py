"""Proposition columns in three layouts, and what is wrong with broken ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from elmokit.errors import InputError
from elmokit.tasks.shared.tags import Span
from elmokit.tasks.srl.proposition import Proposition, SrlSentence
from elmokit.tasks.srl.proposition_files import read_propositions

TOKENS = ("Birds", "that", "sing", "wake", "me", "up", "with", "songs", ".")
TAGS = ("NNS", "WDT", "VBP", "VBP", "PRP", "RP", "IN", "NNS", ".")
ROLESETS = ("-", "-", "sing.01", "wake.02", "-", "-", "-", "song.01", "-")
SING = ("(ARG0*)", "(R-ARG0*)", "(V*)", "*", "*", "*", "*", "*", "*")
WAKE = ("(ARG0*", "*", "*)", "(V*)", "(ARG1*)", "(C-V*)", "(ARGM-MNR*", "*)", "*")
SONG = ("*", "*", "*", "*", "*", "*", "*", "(V*)", "*")
BARE = ("Hello", "there")

EXPECTED = [
    SrlSentence(BARE, ()),
    SrlSentence(
        TOKENS,
        (
            Proposition(2, (Span(0, 1, "ARG0"), Span(1, 2, "R-ARG0"), Span(2, 3, "V"))),
            Proposition(
                3, (Span(0, 3, "ARG0"), Span(3, 4, "V"), Span(4, 5, "ARG1"), Span(5, 6, "C-V"), Span(6, 8, "ARGM-MNR"))
            ),
            Proposition(7, (Span(7, 8, "V"),), verbal=False),
        ),
    ),
]


def lines(*rows: tuple[str, ...], separator: str = "\t") -> str:
    return "".join(separator.join(row) + "\n" for row in rows) + "\n"


def numbers(n: int) -> tuple[str, ...]:
    return tuple(map(str, range(n)))


def propbank(*columns: tuple[str, ...], tokens: tuple[str, ...] = TOKENS) -> str:
    n = len(tokens)
    tags, sets = (TAGS, ROLESETS) if tokens is TOKENS else (("UH",) * n, ("-",) * n)
    frames = tuple(roleset.split(".")[0] for roleset in sets)
    fixed = (("a/doc",) * n, ("0",) * n, numbers(n), tokens, tags, ("*",) * n, frames, sets)
    return lines(*zip(*fixed, *columns, strict=True))


def conll_2012(*columns: tuple[str, ...], tokens: tuple[str, ...] = TOKENS) -> str:
    n = len(tokens)
    tags, sets = (TAGS, ROLESETS) if tokens is TOKENS else (("UH",) * n, ("-",) * n)
    frames, senses = zip(*(s.split(".") if "." in s else ("-", "-") for s in sets), strict=True)
    before = (("a/doc",) * n, ("0",) * n, numbers(n), tokens, tags, ("*",) * n, frames, senses)
    between = ("-",) * n, ("Speaker#1",) * n, ("*",) * n
    return lines(*zip(*before, *between, *columns, ("-",) * n, strict=True), separator="   ")


def conll_2005(*columns: tuple[str, ...], tokens: tuple[str, ...] = TOKENS) -> str:
    n = len(tokens)
    tags, sets = (TAGS, ROLESETS) if tokens is TOKENS else (("UH",) * n, ("-",) * n)
    frames, senses = zip(*(s.split(".") if "." in s else ("-", "-") for s in sets), strict=True)
    fixed = (tokens, ("*",) * n, tags, ("(NP*)",) * n, ("*",) * n, ("*",) * n, senses, frames)
    return lines(*zip(*fixed, *columns, strict=True), separator=" ")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "props.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_propbank(tmp_path: Path) -> None:
    assert read_propositions(write(tmp_path, propbank(tokens=BARE) + propbank(SING, WAKE, SONG))) == EXPECTED


def test_conll_2012(tmp_path: Path) -> None:
    text = conll_2012(tokens=BARE) + conll_2012(SING, WAKE, SONG)
    text = f"#begin document (a/doc); part 000\n{text}#end document\n#begin document (b); part 000\n#end document\n"
    assert read_propositions(write(tmp_path, text)) == EXPECTED


def test_conll_2012_predicate_without_roleset(tmp_path: Path) -> None:
    # a column more than rolesets: the verb stands where its column says
    text = conll_2012(SING, WAKE, SONG, ("*",) * 4 + ("(V*)",) + ("*",) * 4)
    (sentence,) = read_propositions(write(tmp_path, text))
    assert [(p.predicate, p.verbal) for p in sentence.known()] == [(2, True), (3, True), (7, False), (4, False)]


def test_conll_2005_has_verbs_alone(tmp_path: Path) -> None:
    pound = ("#", "5", "fell")
    text = conll_2005(tokens=BARE) + conll_2005(SING, WAKE, SONG) + conll_2005(tokens=pound)
    plain, roles, last = read_propositions(write(tmp_path, text))
    assert plain == EXPECTED[0]
    assert roles.tokens == TOKENS
    assert [p.spans for p in roles.known()] == [p.spans for p in EXPECTED[1].known()]
    assert all(p.verbal for p in roles.known())
    assert last.tokens == pound  # not a comment


def test_conll_2005_with_the_fewest_columns(tmp_path: Path) -> None:
    text = lines(("Birds", "-", "(A0*)"), ("sing", "sing", "(V*)"))
    (sentence,) = read_propositions(write(tmp_path, text))
    assert sentence == SrlSentence(("Birds", "sing"), (Proposition(1, (Span(0, 1, "A0"), Span(1, 2, "V"))),))


def test_compressed(tmp_path: Path) -> None:
    path = tmp_path / "props.gz"
    path.write_bytes(gzip.compress(propbank(SING, WAKE, SONG).encode()))
    assert read_propositions(path) == EXPECTED[1:]


def change(column: tuple[str, ...], k: int, cell: str) -> tuple[str, ...]:
    return (*column[:k], cell, *column[k + 1 :])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (change(WAKE, 2, "*"), r"line 7: expected \(ARG0\* of line 4 closed in column 10, found '\(V\*\)'"),
        (change(WAKE, 7, "*"), r"line 10: expected \(ARGM-MNR\* closed by the end of the sentence in column 10"),
        (change(WAKE, 8, "*)"), r"line 12: expected an open bracket before a closing one in column 10, found '\*\)'"),
        (change(WAKE, 4, "(ARG1)"), r"line 8: expected a cell as \(ARG0\*, \*, \*\) or \(V\*\) in column 10"),
        (change(WAKE, 4, "B-ARG1"), r"line 8: expected a cell .* found 'B-ARG1'"),
        (change(WAKE, 3, "*"), r"line 4: expected one span \(V\*\) in column 10, found 0"),
        (change(WAKE, 4, "(V*)"), r"line 4: expected one span \(V\*\) in column 10, found 2"),
    ],
)
def test_broken_brackets(tmp_path: Path, column: tuple[str, ...], message: str) -> None:
    path = write(tmp_path, propbank(tokens=BARE) + propbank(SING, column, SONG))
    with pytest.raises(InputError, match=rf"props\.txt: {message}"):
        read_propositions(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (propbank(SING, WAKE, SONG) + propbank(SING, WAKE), r"line 11: expected 11 columns \(PropBank, 3 .*found 10"),
        (propbank(SING, WAKE, SONG) + "a\tb\tc\n", r"line 11: expected 8 columns or more, as PropBank has, found 3"),
        (conll_2012(SING, WAKE, SONG) + lines(("a",) * 9), r"line 11: expected 12 .* as CoNLL-2012 has, found 9"),
        ("a b (V*) x\n", r"line 1: expected the columns of CoNLL-2005, CoNLL-2012 or PropBank"),
        (propbank(tokens=BARE), r"expected proposition columns with predicates as \(V\*\), found none"),
        ("", r"expected proposition columns"),
        (propbank(SING, WAKE, SONG).replace("\tsongs\t", "\t"), r"line 8: expected 11 columns"),
    ],
)  # fmt: skip
def test_broken_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"props\.txt: {message}"):
        read_propositions(write(tmp_path, text))


def test_the_reference_data(shared_data: Path) -> None:
    sentences = read_propositions(shared_data / "srl" / "ewt-propbank" / "ewt.dev.gold_conll.xz")
    propositions = [p for sentence in sentences for p in sentence.known()]
    assert (len(sentences), len(propositions), sum(p.verbal for p in propositions)) == (1965, 4960, 3796)
    assert sum(span.label != "V" for p in propositions for span in p.spans) == 9574
