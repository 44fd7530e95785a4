"""Tags and spans: round trips, hand-worked cases, and conlleval's own rules as a slow twin."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.tasks.ner import span_scores
from elmokit.tasks.shared.tags import Scheme, Span, decode, detect, encode, may_follow

SCHEMES: tuple[Scheme, ...] = ("IOB1", "IOB2", "BIOES")
any_tags = st.lists(st.sampled_from(["O", *(f"{p}-{x}" for p in "BIES" for x in ("A", "B"))]), max_size=9)


@st.composite
def sentences(draw: st.DrawFn) -> tuple[int, list[Span]]:
    n = draw(st.integers(0, 9))
    borders = sorted(draw(st.sets(st.integers(0, n))))
    pieces = pairwise(borders)
    labels = st.sampled_from([None, "A", "B", "R-A"])
    return n, [Span(a, b, label) for a, b in pieces if (label := draw(labels)) is not None]


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=60, deadline=None)
@given(sentence=sentences())
def test_spans_come_back(scheme: Scheme, sentence: tuple[int, list[Span]]) -> None:
    n, spans = sentence
    tags = encode(spans, n, scheme)
    assert len(tags) == n and decode(tags) == spans


@settings(max_examples=60, deadline=None)
@given(sentence=sentences())
def test_what_is_encoded_follows_its_scheme(sentence: tuple[int, list[Span]]) -> None:
    n, spans = sentence
    for scheme in ("IOB2", "BIOES"):
        tags: list[str | None] = [None, *encode(spans, n, scheme), None]  # type: ignore[arg-type]
        assert all(may_follow(a, b, scheme) for a, b in pairwise(tags))  # type: ignore[arg-type]


def conlleval(tags: list[str]) -> list[Span]:
    """The perl script's startOfChunk and endOfChunk, transcribed line by line."""
    spans, start, previous, previous_type = [], 0, "O", ""
    inside = False
    for k, tag in enumerate([*tags, "O"]):
        now, _, kind = tag.partition("-")
        ends = (
            (previous == "B" and now in "BO")
            or (previous == "I" and now in "BO")
            or previous in "ES"
            or (previous == "B" and now == "S")
            or (previous == "I" and now == "S")
            or (previous not in "O" and previous_type != kind)
        )
        begins = (
            now == "B"
            or now == "S"
            or (previous == "O" and now in "IE")
            or (previous in "ES" and now in "EI")
            or (now not in "O" and previous_type != kind)
        )
        if inside and ends:
            spans.append(Span(start, k, previous_type))
            inside = False
        if begins and now != "O":
            start, inside = k, True
        previous, previous_type = now, kind
    return spans


@settings(max_examples=60, deadline=None)
@given(tags=any_tags)
def test_any_sequence_is_read_as_conlleval_reads_it(tags: list[str]) -> None:
    assert decode(tags) == conlleval(tags)


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("I-PER I-PER O I-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),  # IOB1
        ("I-LOC B-LOC O", [(0, 1, "LOC"), (1, 2, "LOC")]),  # IOB1, two of a kind side by side
        ("B-LOC I-LOC B-LOC", [(0, 2, "LOC"), (2, 3, "LOC")]),  # IOB2
        ("I-PER I-LOC", [(0, 1, "PER"), (1, 2, "LOC")]),
        ("S-PER B-LOC E-LOC O", [(0, 1, "PER"), (1, 3, "LOC")]),  # BIOES
        ("U-PER B-LOC L-LOC O", [(0, 1, "PER"), (1, 3, "LOC")]),  # BILOU
        ("B-PER I-LOC E-LOC E-LOC", [(0, 1, "PER"), (1, 3, "LOC"), (3, 4, "LOC")]),  # nothing that fits
        ("O O", []),
        ("", []),
    ],
)
def test_hand_worked(tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert decode(tags.split()) == spans


def test_what_is_no_tag() -> None:
    for tag in ("X", "B", "B-", "-PER", "b-PER", ""):
        with pytest.raises(ValueError, match="expected a tag"):
            decode(["O", tag])
    with pytest.raises(ValueError, match="overlap"):
        encode([Span(0, 2, "A"), Span(1, 3, "A")], 3, "IOB2")
    with pytest.raises(ValueError, match="inside 2 tokens"):
        encode([Span(1, 3, "A")], 2, "IOB2")


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["I-PER I-PER O", "O I-LOC", "O B-LOC"], ("IOB1", 1)),
        (["I-PER I-PER O", "I-LOC B-LOC"], ("IOB1", 0)),
        (["B-PER I-PER", "O O"], ("IOB2", 0)),
        (["B-PER E-PER S-LOC"], ("BIOES", 0)),
        (["B-PER L-PER U-LOC"], ("BIOES", 0)),
        (["O O"], ("IOB2", 0)),
        ([], ("IOB2", 0)),
    ],
)
def test_schemes_are_found_out(tags: list[str], scheme: tuple[str, int]) -> None:
    assert detect([sentence.split() for sentence in tags]) == scheme


@settings(max_examples=60, deadline=None)
@given(sentence=sentences())
def test_gold_against_gold_is_100(sentence: tuple[int, list[Span]]) -> None:
    _, spans = sentence
    scores = span_scores([spans], [spans])
    assert scores["f1"] == scores["precision"] == scores["recall"] == (100.0 if spans else 0.0)


def test_scores_by_hand() -> None:
    gold = [[Span(0, 2, "PER"), Span(3, 4, "LOC")], [Span(0, 1, "LOC")], []]
    found = [[Span(0, 2, "PER"), Span(3, 5, "LOC")], [Span(0, 1, "ORG")], [Span(2, 3, "PER")]]
    scores = span_scores(gold, found)  # 1 right of 3 wanted and 4 given
    assert scores["precision"] == 25.0 and scores["recall"] == pytest.approx(100 / 3)
    assert scores["f1"] == pytest.approx(200 / 7)
    assert scores["f1 PER"] == pytest.approx(200 / 3) and scores["f1 LOC"] == scores["f1 ORG"] == 0
    assert span_scores(gold, [[], [], []])["f1"] == 0


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(any_tags, any_tags), min_size=1, max_size=4))
def test_swapping_gold_and_found_swaps_precision_and_recall(pairs: list[tuple[list[str], list[str]]]) -> None:
    one, two = [decode(a) for a, _ in pairs], [decode(b) for _, b in pairs]
    there, back = span_scores(one, two), span_scores(two, one)
    assert there["f1"] == back["f1"] and there["precision"] == back["recall"]
