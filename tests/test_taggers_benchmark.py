"""The readers and scores of benchmarks/taggers.py."""

from __future__ import annotations

import gzip
import importlib
import lzma
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from elmokit.tasks.shared.tags import Span


@pytest.fixture
def taggers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("taggers")


def test_trees_and_entities_are_read(taggers: ModuleType, tmp_path: Path) -> None:
    for folder in ("pos/wsj-sample", "ner/uner-ewt"):
        (tmp_path / folder).mkdir(parents=True)
    tree = "( (S \n  (NP (PRP He) ) (VP (VBZ says) (NP (-NONE- *) ))\n (-LRB- -LRB-) (CD 1\\/2) (. .) ))\n"
    path = tmp_path / "pos/wsj-sample/wsj_0001-0199.mrg.gz"
    path.write_bytes(gzip.compress((tree + "( (NP (NN rain) ))\n").encode()))
    found = taggers.wsj(tmp_path)
    assert found.sentences == [["He", "says", "(", "1/2", "."], ["rain"]]
    assert found.gold == [["PRP", "VBZ", "-LRB-", "CD", "."], ["NN"]]
    rows = "# text = In Rome #1\n1\tIn\tO\t-\t-\n2\tRome\tB-LOC\t-\tx\n3\t#1\tO\t-\t-\n\n# newdoc\n1\tYes\tO\t-\t-\n\n"
    (tmp_path / "ner/uner-ewt/en_ewt-ud-test.iob2.xz").write_bytes(lzma.compress(rows.encode()))
    found = taggers.uner(tmp_path)
    assert found.sentences == [["In", "Rome", "#1"], ["Yes"]] and found.gold == [[Span(1, 2, "LOC")], []]


def test_entities_of_spacy_are_read_as_those_of_the_data(taggers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = ["the", "UN", "of", "Paris", "'s", "Tuesday"]
    answer = {"entities": [[[0, 2, "ORG"], [3, 5, "GPE"], [5, 6, "DATE"]]]}
    monkeypatch.setattr(taggers, "ask_spacy", lambda python, sentences: answer)
    gold: list[Any] = [[Span(1, 2, "ORG"), Span(3, 4, "LOC"), Span(5, 6, "MISC")]]
    scores = taggers.spacy_scores("python", taggers.TestSet("ner", (), [tokens], gold), [tokens])
    assert scores["score"] == 100
    answer["entities"] = [[[0, 2, "ORG"], [2, 5, "GPE"]]]
    scores = taggers.spacy_scores("python", taggers.TestSet("ner", (), [tokens], gold), [tokens])
    assert scores["score"] == 50
