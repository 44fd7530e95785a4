"""The score of arguments against hand-worked cases and a transcription of the official rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import InputError
from elmokit.tasks.shared.tags import Span
from elmokit.tasks.srl.proposition import LabeledPredicate, Proposition, Roles, SrlSentence
from elmokit.tasks.srl.score import Argument, arguments, score_roles

LABELS = ("V", "ARG0", "ARG1", "C-ARG1", "R-ARG0", "C-V", "C-ARG0")


def sentence(*propositions: Proposition, n: int = 12) -> SrlSentence:
    return SrlSentence(tuple("abcdefghijkl"[:n]), propositions)


def spans(*items: tuple[int, int, str]) -> tuple[Span, ...]:
    return tuple(Span(*item) for item in items)


def f1(gold: tuple[Span, ...], predicted: tuple[Span, ...]) -> dict[str, float]:
    return score_roles([sentence(Proposition(0, gold))], [Roles((LabeledPredicate(0, predicted),), {0: 0.9})])


def official_counts(gold: tuple[Span, ...], predicted: tuple[Span, ...]) -> tuple[int, int, int]:
    """Right, excess and missed as srl-eval.pl finds them: by (start, end) of an argument, then by its pieces."""

    def load(spans: tuple[Span, ...]) -> list[dict[str, object]]:
        args: list[dict[str, object]] = []
        of_type: dict[str, dict[str, object]] = {}
        for start, end, label in sorted(spans):
            continues = label.startswith("C-")
            kind = label[2:] if continues else label
            if continues and kind in of_type:
                of_type[kind]["pieces"].append((start, end))  # type: ignore[attr-defined]
                of_type[kind]["end"] = end
            else:
                of_type[kind] = {"type": kind, "start": start, "end": end, "pieces": [(start, end)]}
                args.append(of_type[kind])
        return args

    left = {(a["start"], a["end"]): a for a in load(gold)}
    right = excess = 0
    for arg in load(predicted):
        twin = left.get((arg["start"], arg["end"]))
        same = twin is not None and twin["type"] == arg["type"] and twin["pieces"] == arg["pieces"]
        if same:
            del left[arg["start"], arg["end"]]
        if arg["type"] != "V":
            right, excess = right + same, excess + (not same)
    return right, excess, sum(a["type"] != "V" for a in left.values())


@st.composite
def propositions(draw: st.DrawFn) -> tuple[Span, ...]:
    cuts = draw(st.lists(st.integers(0, 12), max_size=8, unique=True).map(sorted))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return tuple(Span(start, end, draw(st.sampled_from(LABELS))) for start, end in pairs)


@given(gold=propositions(), predicted=propositions())
def test_equal_to_the_official_rules(gold: tuple[Span, ...], predicted: tuple[Span, ...]) -> None:
    right, excess, missed = official_counts(gold, predicted)
    precision = 100 * right / (right + excess) if right + excess else 0
    recall = 100 * right / (right + missed) if right + missed else 0
    scores = f1(gold, predicted)
    assert scores["precision"] == pytest.approx(precision)
    assert scores["recall"] == pytest.approx(recall)
    assert scores["f1"] == pytest.approx(2 * precision * recall / (precision + recall) if right else 0)
    swapped = f1(predicted, gold)
    assert (swapped["precision"], swapped["recall"]) == (scores["recall"], scores["precision"])


@given(gold=propositions())
def test_gold_against_gold(gold: tuple[Span, ...]) -> None:
    assert f1(gold, gold)["f1"] == (100 if arguments(gold) else 0)


def test_a_continuation_belongs_to_the_last_argument_of_its_label() -> None:
    found = arguments(
        spans((0, 1, "ARG1"), (2, 3, "V"), (3, 5, "ARG1"), (5, 6, "C-V"), (6, 8, "C-ARG1"), (9, 10, "C-ARG1"))
    )
    assert found == [Argument("ARG1", ((0, 1),)), Argument("ARG1", ((3, 5), (6, 8), (9, 10)))]


def test_a_continuation_of_nothing_is_an_argument_and_references_are_labels() -> None:
    found = arguments(spans((0, 1, "C-ARG1"), (1, 2, "R-ARG1"), (2, 3, "C-ARG1")))
    assert found == [Argument("ARG1", ((0, 1), (2, 3))), Argument("R-ARG1", ((1, 2),))]


def test_hand_worked() -> None:
    gold = spans((0, 2, "ARG0"), (2, 3, "V"), (3, 5, "ARG1"), (6, 8, "C-ARG1"), (8, 9, "ARGM-TMP"))
    # half of a divided argument is wrong as a whole; a wrong V does not count
    predicted = spans((0, 2, "ARG0"), (3, 5, "ARG1"), (5, 6, "V"), (8, 9, "ARGM-LOC"))
    scores = f1(gold, predicted)
    assert scores["precision"] == scores["recall"] == pytest.approx(100 / 3)
    duplicate = spans(
        (0, 2, "ARG0"), (2, 3, "V"), (3, 5, "ARG1"), (6, 8, "C-ARG1"), (8, 9, "ARGM-TMP"), (10, 11, "ARG0")
    )
    assert f1(gold, duplicate)["precision"] == 75
    assert f1(gold, duplicate)["recall"] == 100
    assert f1(gold, ())["f1"] == 0


def test_verbs_are_the_headline_and_predicates_are_scored_beside() -> None:
    verb = Proposition(1, spans((0, 1, "ARG0"), (1, 2, "V")))
    noun = Proposition(4, spans((3, 4, "ARG1"), (4, 5, "V"), (5, 6, "ARG0")), verbal=False)
    auxiliary = Proposition(7, spans((7, 8, "V")))
    roles = Roles(
        (
            LabeledPredicate(1, verb.spans),
            LabeledPredicate(4, spans((3, 4, "ARG0"))),
            LabeledPredicate(7, spans((8, 9, "ARG1"))),  # in excess: auxiliaries are scored
            LabeledPredicate(9, spans((0, 1, "ARG0"))),  # no predicate in the gold data: not counted
        ),
        {1: 0.9, 4: 0.6, 9: 0.7, 10: 0.8},
    )
    scores = score_roles([sentence(verb, noun, auxiliary)], [roles])
    assert (scores["precision"], scores["recall"], scores["f1"]) == (50, 100, pytest.approx(200 / 3))
    assert (scores["precision_all"], scores["recall_all"]) == (pytest.approx(100 / 3), pytest.approx(100 / 3))
    assert scores["predicate_f1"] == pytest.approx(100 * 2 * 2 / (3 + 4))


def test_a_predicate_without_prediction_has_missed_all() -> None:
    two = sentence(Proposition(1, spans((0, 1, "ARG0"), (1, 2, "V"))), Proposition(4, spans((3, 4, "ARG1"))))
    scores = score_roles([two], [Roles((LabeledPredicate(1, two.known()[0].spans),), {})])
    assert (scores["precision"], scores["recall"], scores["predicate_f1"]) == (100, 50, 0)


def test_nothing_to_find_is_no_division_by_zero() -> None:
    assert set(score_roles([sentence()], [Roles((), {})]).values()) == {0}


def test_a_sentence_without_gold_cannot_be_scored() -> None:
    with pytest.raises(InputError, match="propositions, found one without: 'Hello you'"):
        score_roles([SrlSentence(("Hello", "you"))], [Roles((), {})])
