"""Coreference learned from a few little documents, through what all tasks share, and used on raw text."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path

from elmokit.tasks.coref.coref_settings import CorefSettings
from elmokit.tasks.coref.coref_task import Coref
from elmokit.tasks.runs.task_model import TaskModel
from elmokit.tasks.runs.task_run import Data, open_run

PEOPLE = (("Ada", "she"), ("Emmy", "she"), ("Alan", "he"), ("Kurt", "he"))
THINGS = ("the old owl", "a grey cat", "the red engine", "a tin box")
SETTINGS = CorefSettings(
    elmo=False, word_dim=24, character_filters=0, lstm_dim=24, hidden_dim=24, feature_dim=6, max_width=3,
    span_ratio=0.5, max_antecedents=10, train_tokens=60, dropout=0.0, lexical_dropout=0.0, learning_rate=0.003,
    mention_weight=0.5, epochs=12,
)  # fmt: skip


def story(rng: random.Random) -> str:
    """A person, a thing, and what is said of both; names and pronouns tell who is who."""
    (name, pronoun), thing = rng.choice(PEOPLE), rng.choice(THINGS)
    words = thing.split()
    a_thing = [f"{words[0]}/(1", *words[1:-1], f"{words[-1]}/1)"]
    lines = [[f"{name}/(0)", "has", *a_thing, "."], [f"{pronoun}/(0)", "likes", "it/(1)", "."]]
    more = [f"it/(1) is near {name}/(0) today .", f"now {pronoun}/(0) sees a tree .", "it rains ."]
    lines += [line.split() for line in rng.sample(more, 2)]
    rows = ["#begin document (story); part 000"]
    for line in lines:
        for k, item in enumerate(line):
            word, _, cell = item.partition("/")
            rows.append("\t".join(["story", "0", str(k), word, *"-" * 7, cell or "-"]))
        rows.append("")
    return "\n".join((*rows, "#end document\n"))


def test_overfits_and_predicts(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = tmp_path / "stories.conll"
    path.write_text("".join(story(rng) for _ in range(20)), encoding="utf-8")
    run = open_run(Coref(), asdict(SETTINGS), Data(train=(str(path),), dev=str(path)), tmp_path / "run")
    for _ in run.go():
        pass
    assert run.results is not None and run.results["dev"]["average"] > 98

    model = TaskModel.from_pretrained(tmp_path / "run")
    assert model.evaluate(path) == run.results["dev"]
    (found,) = model.predict(["Alan has a grey cat. he likes it. now he sees a tree."])
    texts = [[mention["text"] for mention in cluster] for cluster in found["clusters"]]
    assert texts == [["Alan", "he", "he"], ["a grey cat", "it"]]
    assert all(0.5 < mention["score"] <= 1 for cluster in found["clusters"] for mention in cluster[1:])
    assert model.predict(["", "Alan has a tin box."])[0]["clusters"] == []
