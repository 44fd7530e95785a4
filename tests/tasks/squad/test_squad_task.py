"""The task around the network: hold-out, training examples, score, raw questions, answers on a terminal and as JSON."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from rich.text import Text

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.runs.task_model import TaskModel
from elmokit.tasks.runs.task_run import Data, open_run
from elmokit.tasks.squad import Squad
from elmokit.tasks.squad.question import Passage, Question
from elmokit.tasks.squad.squad_network import SquadAnswer
from elmokit.tasks.squad.squad_task import SquadSettings

TASK = Squad()
PASSAGE = "The mill on the Rhine was built in 1790. Anna's aunt sold it to the town after the war, for 300 crowns."


def ask(question: str, answer: str = "", *, passage: str = PASSAGE, article: str = "Mill", id: str = "q") -> Question:
    made = Passage.from_text(passage)
    start = passage.find(answer)
    span = made.tokens_at(start, start + len(answer)) if answer and start >= 0 else None
    return Question.from_text(question, made, id=id, article=article, answers=(answer,) if answer else (), span=span)


def answer(text: str, *, passage: str = PASSAGE, score: float = 0.5) -> SquadAnswer:
    start = passage.index(text)
    return SquadAnswer(
        text, Passage.from_text(passage).tokens_at(start, start + len(text)), start, start + len(text), score
    )


def articles(**sizes: int) -> list[Question]:
    return [ask("Who?", article=name, id=f"{name}{k}") for name, size in sizes.items() for k in range(size)]


def test_unanswerable_questions_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = {"question": "Who?", "answers": [{"text": "mill", "answer_start": 4}]}
    questions = [{**asked, "id": "1"}, {**asked, "id": "2", "is_impossible": True}]
    content = {"data": [{"title": "Mill", "paragraphs": [{"context": PASSAGE, "qas": questions}]}]}
    path = tmp_path / "dev-v2.0.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert [question.id for question in TASK.read(path)] == ["1"]
    assert "dev-v2.0.json: skipped 1 questions without an answer" in caplog.text


def test_whole_articles_are_held_out() -> None:
    examples = articles(a=30, b=10, c=10, d=10, e=40)
    train, dev = TASK.hold_out(examples, SquadSettings(hold_out=0.2))
    assert sorted(q.id for q in train + dev) == sorted(q.id for q in examples)
    assert not {q.article for q in train} & {q.article for q in dev}
    assert len(dev) == 20  # two of the three small ones: the others alone are too much
    assert TASK.hold_out(examples, SquadSettings(hold_out=0.2)) == (train, dev)
    draws = {
        frozenset(q.article for q in TASK.hold_out(examples, SquadSettings(hold_out=0.2, seed=s))[1]) for s in range(20)
    }
    assert draws == {frozenset("bc"), frozenset("bd"), frozenset("cd")}


def test_the_smallest_article_is_held_out_where_all_are_too_large() -> None:
    assert {q.article for q in TASK.hold_out(articles(a=5, b=3, c=4), SquadSettings(hold_out=0.01))[1]} == {"b"}


def test_one_article_cannot_be_divided() -> None:
    with pytest.raises(InputError, match="hold_out: expected two or more articles to divide, found 1; give dev"):
        TASK.hold_out(articles(a=5), SquadSettings())


def test_misplaced_answers_are_not_trained_on_but_reported(caplog: pytest.LogCaptureFixture) -> None:
    good = ask("When?", "1790")
    lost = [ask("Who?", "nobody", id=f"lost{k}") for k in range(4)]
    with caplog.at_level(logging.WARNING):
        assert TASK.training_examples([*lost, good], SquadSettings()) == [good]
    assert "4 questions are not trained on" in caplog.text
    assert "(lost0, lost1, lost2, ...)" in caplog.text
    with pytest.raises(InputError, match=r"found none among 4 questions \(the first is 'lost0'\)"):
        TASK.training_examples(lost, SquadSettings())
    with pytest.raises(InputError, match=r"found none among 0 questions$"):
        TASK.training_examples([], SquadSettings())


def test_long_passages_are_cut_for_training_alone() -> None:
    question = ask("How much?", "300 crowns")
    (short,) = TASK.training_examples([question], SquadSettings(max_passage=6))
    assert TASK.size(short) == 6 and TASK.size(question) == 26
    assert TASK.texts(short) == [("war", ",", "for", "300", "crowns", "."), ("How", "much", "?")]
    assert short.span == (3, 4)


def test_score() -> None:
    questions = [ask("Where?", "the Rhine"), ask("When?", "1790")]
    assert TASK.score(questions, [answer("Rhine"), answer("in 1790")]) == {
        "em": 50.0,
        "f1": pytest.approx(100 * (1 + 2 / 3) / 2),
    }
    with pytest.raises(InputError, match="found none to 'Why"):
        TASK.score([ask("Why?")], [answer("Rhine")])
    with pytest.raises(InputError, match="found none"):
        TASK.score([], [])


def test_parse() -> None:
    (question,) = TASK.parse(json.dumps({"passage": PASSAGE, "question": "When was it built?"}))
    assert TASK.texts(question)[1] == ("When", "was", "it", "built", "?")
    assert question.passage.text == PASSAGE
    assert (question.answers, question.span) == ((), None)
    assert TASK.parse("  \n") == []


@pytest.mark.parametrize(
    "line", ["When?", "[]", "{}", '{"passage": "x"}', '{"passage": "x", "question": 5}', "[" * 10**5]
)
def test_parse_refuses(line: str) -> None:
    with pytest.raises(InputError, match=r'expected JSON \{"passage": "...", "question": "..."\} on one line, found'):
        TASK.parse(line)


@pytest.mark.parametrize(("passage", "question", "name"), [("", "Who?", "passage"), ("A mill.", " ", "question")])
def test_parse_refuses_nothing(passage: str, question: str, name: str) -> None:
    with pytest.raises(InputError, match=f"expected a {name} with at least one word"):
        TASK.parse(json.dumps({"passage": passage, "question": question}))


def test_to_json() -> None:
    question = ask("When was it built?")
    line = TASK.to_json(question, answer("1790", score=0.123456789))
    assert line == {
        "id": "q",
        "question": "When was it built?",
        "answer": "1790",
        "score": 0.123457,
        "start": 35,
        "end": 39,
        "context": "The mill on the Rhine was built in **1790**."
        " Anna's aunt sold it to the town after the war, for 300 ...",
    }
    json.dumps(line)
    end = TASK.to_json(question, answer("300 crowns"))
    assert end["context"] == "... in 1790. Anna's aunt sold it to the town after the war, for **300 crowns**."


def test_the_context_of_text_without_spaces() -> None:
    passage = "x" * 100 + "," + "y" * 100
    line = TASK.to_json(ask("?", passage=passage), answer(",", passage=passage))
    assert line["context"] == f"... {'x' * 60}**,**{'y' * 60} ..."


def test_show() -> None:
    shown = TASK.show(ask("When was it built?"), answer("1790", score=0.42))
    assert isinstance(shown, Text)
    assert shown.plain.splitlines()[:2] == ["When was it built?", "  1790 42%"]
    marked = [shown.plain[part.start : part.end] for part in shown.spans if "on green" in str(part.style)]
    assert marked == ["1790"]


def test_settings() -> None:
    assert SquadSettings().elmo_at == "both"
    with pytest.raises(ConfigError, match="max_answer: expected at least 1, found 0"):
        SquadSettings(max_answer=0)


# ---- learning


FACTS = [(f"name{k}", f"town{k}", f"trade{k}") for k in range(10)]


def questions_to_learn() -> list[Question]:
    """20 questions about made-up people; which fact of the passage is asked for, only the question says."""
    examples = []
    for k, (name, town, trade) in enumerate(FACTS):
        other, other_town, other_trade = FACTS[(k + 3) % len(FACTS)]
        passage = f"{name} lives in {town} as a {trade}, but {other} lives in {other_town} as a {other_trade}."
        examples.append(ask(f"Where does {name} live?", town, passage=passage))
        examples.append(ask(f"What does {other} work as?", other_trade, passage=passage))
    return examples


def write_squad(path: Path, questions: list[Question]) -> None:
    paragraphs = [
        {
            "context": question.passage.text,
            "qas": [
                {
                    "id": f"q{k}",
                    "question": question.text,
                    "answers": [
                        {"text": text, "answer_start": question.passage.text.index(text)} for text in question.answers
                    ],
                }
            ],
        }
        for k, question in enumerate(questions)
    ]
    path.write_text(json.dumps({"data": [{"title": "People", "paragraphs": paragraphs}]}), encoding="utf-8")


def test_a_run_learns_its_questions_by_heart(tmp_path: Path) -> None:
    file, folder = tmp_path / "people.json", tmp_path / "run"
    write_squad(file, questions_to_learn())
    given = {
        "elmo": False,
        "word_dim": 16,
        "hidden": 16,
        "dropout": 0.0,
        "batch_size": 10,
        "learning_rate": 1e-2,
        "epochs": 30,
        "patience": 30,
    }
    run = open_run(TASK, given, Data(train=(str(file),), dev=str(file), test=str(file)), folder)
    before = TASK.score(run.dev, run.model.predictions(run.dev, None))
    list(run.go())
    assert before["f1"] < 50
    assert run.results is not None
    assert run.results["test"]["f1"] > 95 and run.results["test"]["em"] > 90

    model = TaskModel.from_pretrained(folder, task="squad")
    assert model.evaluate(file) == run.results["test"]
    asked = [json.dumps({"passage": q.passage.text, "question": q.text}) for q in run.dev]
    found = model.predict(asked)
    assert [line["answer"] for line in found] == [
        line["answer"] for line in model.predict(run.dev)
    ]  # raw text and the examples of the file
    for question, line in zip(run.dev, found, strict=True):
        assert question.passage.text[line["start"] : line["end"]] == line["answer"]
        assert 0 < line["score"] <= 1
