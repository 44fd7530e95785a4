"""SQuAD's JSON: which questions come out, where their answers stand, and what is said of broken files."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import InputError
from elmokit.tasks.squad.question import Passage, Question
from elmokit.tasks.squad.squad_json import read_squad
from elmokit.text.tokenizer import plain

CONTEXT = "The old mill (built 1790s) stood by the U.S. border. Anna's aunt didn't sell it in the U.S."


def question(id: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": "Who sold it?", "answers": given, **more}


def squad(*questions: dict[str, Any], context: str = CONTEXT) -> dict[str, Any]:
    return {"version": "1.1", "data": [{"title": "Mill", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def write(folder: Path, content: Any) -> Path:
    path = folder / "train.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def span_of(folder: Path, answer: str, *, at: int | None = None, context: str = CONTEXT) -> list[str] | None:
    start = context.index(answer) if at is None else at
    (read,) = read_squad(write(folder, squad(question("q", (answer, start)), context=context))).questions
    return None if read.span is None else list(read.passage.tokens[read.span[0] : read.span[1] + 1])


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ("old mill", ["old", "mill"]),
        ("The", ["The"]),
        ("1790", ["1790s"]),  # inside a token: the whole of it
        ("790s) st", ["1790s", ")", "stood"]),
        ("Anna", ["Anna"]),
        ("Anna's aunt", ["Anna", "'s", "aunt"]),
        ("n't", ["n't"]),
        (" sell it ", ["sell", "it"]),  # white space of an answer is none of its tokens
        (CONTEXT, list(Passage.from_text(CONTEXT).tokens)[:-1]),
    ],
)
def test_answers_become_tokens(tmp_path: Path, answer: str, tokens: list[str]) -> None:
    assert span_of(tmp_path, answer) == tokens


def test_the_last_abbreviation_shares_its_dot_and_is_enough(tmp_path: Path) -> None:
    assert span_of(tmp_path, "U.S.", at=CONTEXT.rindex("U.S.")) == ["U.S."]


def test_characters_outside_the_first_plane_count_once(tmp_path: Path) -> None:
    assert span_of(tmp_path, "north", context="A 𝔣𝔬𝔵 went — north .") == ["north"]


@given(st.text(alphabet="ab .,'-$\u2019é𝔵\n", max_size=40), st.data())
def test_a_span_covers_its_answer_and_no_token_too_many(text: str, data: st.DataObject) -> None:
    solid = [k for k, letter in enumerate(text) if not letter.isspace()]
    if not solid:
        return
    first, last = sorted((data.draw(st.sampled_from(solid)), data.draw(st.sampled_from(solid))))
    passage = Passage.from_text(text)
    i, j = passage.tokens_at(first, last + 1)
    start, end = passage.characters_at((i, j))
    assert start <= first and last < end
    assert passage.offsets[i][1] > first and passage.offsets[j][0] <= last
    for shorter in ((i + 1, j), (i, j - 1)):
        if shorter[0] <= shorter[1]:
            begin, stop = passage.characters_at(shorter)
            assert begin > first or stop < last + 1


def test_sentences_end_as_sentences_do() -> None:
    passage = Passage.from_text("He left the U.S. The mill of Mr. Ott burnt down.\n\nWhy?")
    assert passage.sentences == (
        ("He", "left", "the", "U.S.", "."),
        ("The", "mill", "of", "Mr.", "Ott", "burnt", "down", "."),
        ("Why", "?"),
    )
    assert passage.tokens_at(12, 16) == (3, 3)  # the dot of U.S. is in two tokens, of which one is enough
    assert passage.tokens_at(17, 20) == (5, 5)


@given(st.text(alphabet="aB .,!?'-\u2019\u3002é𝔵\n", max_size=60), st.data())
def test_no_token_is_lost_or_twice_there(text: str, data: st.DataObject) -> None:
    passage = Passage.from_text(text)
    assert all(passage.sentences) and len(passage.tokens) == len(passage.offsets)
    covered = [0] * len(text)
    for token, (start, end) in zip(passage.tokens, passage.offsets, strict=True):
        assert token == plain(text[start:end])
        for k in range(start, end):
            covered[k] += 1
    ends = {passage.offsets[n - 1] for n in accumulate(map(len, passage.sentences))}
    shared = {start for start, end in ends if text[start:end] == "."}  # the dots after abbreviations
    for k, letter in enumerate(text):
        assert covered[k] == (not letter.isspace()) or (covered[k] == 2 and k in shared)
    if passage.tokens:
        first = data.draw(st.integers(0, len(passage.tokens) - 1))
        n = data.draw(st.integers(1, len(passage.tokens) - first))
        part = passage.window(first, n)
        assert part.tokens == passage.tokens[first : first + n] and part.offsets == passage.offsets[first : first + n]
        borders = {0, *accumulate(map(len, passage.sentences))}
        assert {first + k for k in accumulate(map(len, part.sentences))} == {
            k for k in (*borders, first + n) if first < k <= first + n
        }


@pytest.mark.parametrize("answer", [("nobody", 3), ("mill", 7), ("mill", -1), ("mill", 5000), ("", 0), ("  ", 3)])
def test_a_misplaced_answer_can_be_scored_but_not_trained_on(tmp_path: Path, answer: tuple[str, int]) -> None:
    file = read_squad(write(tmp_path, squad(question("lost", answer), question("found", ("mill", 8)))))
    assert file.misplaced == ("lost",)
    assert [(q.id, q.span, q.answers) for q in file.questions] == [
        ("lost", None, (answer[0],)),
        ("found", (2, 2), ("mill",)),
    ]


def test_the_first_answer_in_its_place_is_the_target(tmp_path: Path) -> None:
    file = read_squad(write(tmp_path, squad(question("q", ("lake", 8), ("mill", 8), ("old mill", 4)))))
    assert file.questions[0].span == (2, 2)
    assert file.questions[0].answers == ("lake", "mill", "old mill")
    assert file.misplaced == ()


def test_unanswerable_questions_are_counted(tmp_path: Path) -> None:
    content = squad(
        question("1", ("mill", 8), is_impossible=False),
        question("2", is_impossible=True, plausible_answers=[{"text": "mill", "answer_start": 8}]),
        question("3", ("mill", 8), is_impossible=True),
        question("4"),
    )
    file = read_squad(write(tmp_path, content))
    assert [q.id for q in file.questions] == ["1"]
    assert file.unanswerable == 3


def test_questions_share_their_passage_and_know_their_article(tmp_path: Path) -> None:
    first, second = read_squad(write(tmp_path, squad(question("1", ("mill", 8)), question("2", ("old", 4))))).questions
    assert first.passage is second.passage
    assert first.article == "Mill"
    content = squad(question("1", ("mill", 8)))
    del content["data"][0]["title"]
    content["data"] *= 2
    untitled = read_squad(write(tmp_path, content)).questions
    assert untitled[0].article != untitled[1].article


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2"])
def test_compressed(tmp_path: Path, suffix: str) -> None:
    text = json.dumps(squad(question("q", ("mill", 8))), indent=1).encode("utf-8-sig")
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}[suffix]
    path = tmp_path / f"train.json{suffix}"
    path.write_bytes(pack(text))
    assert read_squad(path).questions[0].span == (2, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"train.json, line 1, column 1: expected the JSON of SQuAD"),
        ('{"data": [\n}', r"train.json, line 2, column 1"),
        ("[" * 100_000, "expected the JSON of SQuAD, found more than 50 nested lists"),
        ('{"data": ' + "1" * 5000 + "}", "found an integer of 5000 digits"),
        ([], "the top: expected an object with 'data'"),
        ({"data": {}}, r"data: expected a list, found \{\}"),
        ({"data": []}, "found 0 questions"),
        ({"data": [1]}, r"data\[0\]: expected an object with 'paragraphs'"),
        ({"data": [{"title": 5}]}, r"data\[0\].title: expected a text, found 5"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, r"data\[0\].paragraphs\[0\]: expected an object with 'context'"),
        (squad({"id": "q"}), r"data\[0\].paragraphs\[0\].qas\[0\]: expected an object with 'question'"),
        (squad(question("q", ("mill", "8"))), r"qas\[0\].answers\[0\].answer_start: expected an integer, found \"8\""),  # type: ignore[arg-type]
        (squad(question("q", ("mill", True))), r"answer_start: expected an integer, found true"),
        (squad(question("q", is_impossible=True)), "expected questions with answers, found 1 questions"),
        (squad({**question("q77", ("x", 0)), "question": " "}), "question 'q77': expected a question with at least"),
        (squad(question("q77", ("x", 0)), context="\n"), "question 'q77': expected a passage with at least one word"),
    ],
)
def test_broken_files(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_squad(write(tmp_path, content))
    assert "train.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable text file"):
        read_squad(tmp_path / "nowhere.json")


@given(st.integers(1, 60), st.data())
def test_cut_keeps_the_answer(n_tokens: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, n_tokens - 1))
    last = data.draw(st.integers(first, n_tokens - 1))
    limit = data.draw(st.integers(1, 70))
    passage = Passage.from_text(" ".join(f"w{k}" for k in range(n_tokens)))
    whole = Question.from_text("Who?", passage, span=(first, last))
    short = whole.cut(limit)
    assert short.span is not None
    assert short.passage.characters_at(short.span) == passage.characters_at((first, last))
    assert short.passage.tokens[short.span[0] : short.span[1] + 1] == passage.tokens[first : last + 1]
    assert len(short.passage.tokens) == min(n_tokens, max(limit, last - first + 1))
    if n_tokens <= limit:
        assert short is whole
    else:  # as much before as after, unless the passage ends
        before, after = short.span[0], len(short.passage.tokens) - 1 - short.span[1]
        at_edge = short.passage.tokens[0] == "w0" or short.passage.tokens[-1] == passage.tokens[-1]
        assert abs(before - after) <= 1 or at_edge


def test_the_reference_data(shared_data: Path) -> None:
    file = read_squad(shared_data / "qa" / "squad" / "train-v1.1.extra.json.gz")
    assert len(file.questions) == 3535
    assert (file.unanswerable, file.misplaced) == (0, ())
