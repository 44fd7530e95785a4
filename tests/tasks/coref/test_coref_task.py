"""Coreference as a task: raw text in, JSON and colors out."""

from __future__ import annotations

import io
import json
import logging

import pytest
from rich.console import Console

from elmokit.errors import InputError
from elmokit.tasks.coref.coref_network import CorefPrediction, Mention
from elmokit.tasks.coref.coref_task import Coref
from elmokit.tasks.coref.document import Document
from elmokit.tasks.runs.task_model import warn_of_labels

TEXT = "Ada's owl sleeps. It likes her garden, and she feeds it."
DOCUMENT = Document([s.split() for s in ("Ada 's owl sleeps .", "It likes her garden , and she feeds it .")])
PREDICTION = CorefPrediction(
    [
        [Mention((0, 0), None, None), Mention((7, 7), (0, 0), 0.91234), Mention((11, 11), (7, 7), 0.5)],
        [Mention((0, 2), None, None), Mention((5, 5), (0, 2), 0.8), Mention((13, 13), (0, 2), 0.75)],
    ]
)


def test_raw_text() -> None:
    (document,) = Coref().parse(f"  {TEXT} ")
    assert document.sentences == DOCUMENT.sentences
    assert document.text is not None and document.offsets is not None
    assert [document.text[start:end] for start, end in document.offsets] == DOCUMENT.tokens
    assert Coref().parse(" \t ") == []
    assert Coref().texts(DOCUMENT) == DOCUMENT.sentences and Coref().size(DOCUMENT) == 15


def test_json() -> None:
    found = json.loads(json.dumps(Coref().to_json(DOCUMENT, PREDICTION)))
    assert found["sentences"] == DOCUMENT.sentences
    assert found["clusters"][0] == [
        {"start": 0, "end": 1, "text": "Ada", "antecedent": None, "score": None},
        {"start": 7, "end": 8, "text": "her", "antecedent": 0, "score": 0.9123},
        {"start": 11, "end": 12, "text": "she", "antecedent": 1, "score": 0.5},
    ]
    assert [mention["text"] for mention in found["clusters"][1]] == ["Ada 's owl", "It", "it"]
    assert Coref().to_json(DOCUMENT, CorefPrediction([]))["clusters"] == []
    (raw,) = Coref().parse(TEXT)
    first = Coref().to_json(raw, PREDICTION)["clusters"][1][0]
    assert (first["text"], first["offsets"]) == ("Ada's owl", [0, 9])


def test_on_a_terminal() -> None:
    text = Coref().show(DOCUMENT, PREDICTION)
    assert text.plain == "[[Ada]1 's owl]2 sleeps .\n[It]2 likes [her]1 garden , and [she]1 feeds [it]2 ."
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system="standard", width=200).print(text)
    expected = "\x1b[1;35m[\x1b[0m\x1b[1;36m[\x1b[0m\x1b[1;36mAda\x1b[0m\x1b[1;36m]1\x1b[0m\x1b[1;35m "
    assert file.getvalue().startswith(expected)


def test_mentions_that_cross_or_share_an_end_keep_their_brackets() -> None:
    document = Document([list("abcd")])
    spans = [[(0, 2), (0, 0)], [(1, 3), (3, 3)], [(0, 3), (2, 3)]]
    text = Coref().show(document, CorefPrediction([[Mention(s, None, None) for s in cluster] for cluster in spans]))
    assert text.plain.count("[") == text.plain.count("]") == 6
    assert text.plain == "[[[a]1 [b [c]1 [d]2]3]2]3"


def test_documents_that_cannot_be() -> None:
    with pytest.raises(InputError, match="expected at least one word, found none"):
        Document([[]])
    with pytest.raises(InputError, match="expected a speaker for each of 2 sentences, or none, found 1"):
        Document([["a"], ["b"]], ["x"])


def test_labels_and_score(caplog: pytest.LogCaptureFixture) -> None:
    documents = [Document([["a"]], name=name) for name in ("GUM_vlog_x", "GUM_bio_y", "GUM_vlog_z", "12_emma")]
    assert Coref().labels(documents) == {"genres": ["bio", "vlog"]}
    with caplog.at_level(logging.WARNING):
        warn_of_labels(Coref(), {"genres": ["bio"]}, documents, "dev data")
    message = (
        "dev data: genres never seen in training: vlog; the network cannot predict them, but they count in the score"
    )
    assert [record.getMessage() for record in caplog.records] == [message]  # nobody predicts genres
    gold = Document(DOCUMENT.sentences, [], PREDICTION.spans)
    scores = Coref().score([gold], [PREDICTION])
    assert scores[Coref.metric] == 100 and set(scores.values()) == {100}
    assert set(Coref().score([gold], [CorefPrediction([])]).values()) == {0}
    with pytest.raises(InputError, match="expected coreference in the last column, found none in 1 documents"):
        Coref().score([DOCUMENT], [PREDICTION])
