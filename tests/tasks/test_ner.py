"""Named entities: reading, predicting, showing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import get_args

import entity_files
import pytest
import torch
from compressed import SUFFIXES, compress
from task_batches import MadeUp

from elmokit.errors import InputError
from elmokit.tasks.ner import Entity, Ner, NerSentence, NerSettings, Tagger
from elmokit.tasks.shared.tags import Scheme, Span
from elmokit.tasks.shared.task_base import predict_batch

TASK = Ner()


def write(folder: Path, text: str, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(compress(text.encode(), path.suffix))
    return path


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_four_columns_as_published(tmp_path: Path, suffix: str) -> None:
    text = "-DOCSTART- -X- O O\n\nAda NNP I-NP I-PER\nmet VBD I-VP O\nEuler NNP I-NP I-PER\nBasel NNP I-NP B-PER\n\n\n"
    path = write(tmp_path, text, f"eng.train{suffix}")
    [sentence] = TASK.read(path)
    assert sentence.tokens == ("Ada", "met", "Euler", "Basel")
    assert sentence.entities == (Span(0, 1, "PER"), Span(2, 3, "PER"), Span(3, 4, "PER"))


def test_all_schemes_mean_the_same(tmp_path: Path) -> None:
    found = [TASK.read(entity_files.write(tmp_path / scheme, 30, scheme=scheme)) for scheme in get_args(Scheme)]
    assert found[0] == found[1] == found[2] and len(found[0]) == 30
    assert sum(len(sentence.entities or ()) for sentence in found[0]) > 30


def test_broken_lines_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"data.txt: line 4: expected a tag such as O, B-X, .* last column, found 'PER'"
    ):
        TASK.read(write(tmp_path, "a O\n\nb O\nc PER\n"))
    with pytest.raises(
        InputError, match=r"line 2: expected at least 2 columns, the token first and its tag last, found 1"
    ):
        TASK.read(write(tmp_path, "a O\nb\n"))


def test_tags_that_follow_no_scheme_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good = "".join(f"{k} I-A\n\n" for k in range(300))
    with caplog.at_level(logging.WARNING):
        TASK.read(write(tmp_path, good + "a O\nb B-A\n"))  # one in three hundred is as it may be
        assert caplog.text == ""
        TASK.read(write(tmp_path, "a I-A\n\nb I-A\n\na O\nb B-A\n"))
    assert "1 sentences violate the tagging scheme IOB1; read as in conlleval" in caplog.text


def test_a_line_of_text_may_be_several_sentences() -> None:
    text = "Ada met Dr. Euler.  It rained in Basel!"
    first, second = TASK.parse(text)
    assert first.tokens == ("Ada", "met", "Dr.", "Euler", ".") and second.tokens == ("It", "rained", "in", "Basel", "!")
    assert second.offsets is not None and text[slice(*second.offsets[3])] == "Basel"
    assert TASK.parse("  ") == []
    [tokenized] = TASK.parse("Angela Merkel met Barack Obama in Berlin .")
    assert len(tokenized.tokens) == 8


def test_json_and_colors() -> None:
    [sentence] = TASK.parse("“Ada Lovelace” met Euler.")
    found = [Entity(Span(1, 3, "PER"), 0.98765), Entity(Span(5, 6, "THING"), 0.5)]
    assert TASK.to_json(sentence, found) == {
        "tokens": ['"', "Ada", "Lovelace", '"', "met", "Euler", "."],
        "entities": [
            {"text": "Ada Lovelace", "label": "PER", "start": 1, "end": 3, "score": 0.9877, "offsets": [1, 13]},
            {"text": "Euler", "label": "THING", "start": 5, "end": 6, "score": 0.5, "offsets": [19, 24]},
        ],
    }
    shown = TASK.show(sentence, found)
    assert shown.plain == '" Ada Lovelace PER " met Euler THING .'
    first = shown.spans[0]
    assert (shown.plain[first.start : first.end], first.style) == ("Ada Lovelace", "bold green")
    columns = NerSentence(("Ada", "met"), ())
    assert TASK.to_json(columns, [Entity(Span(0, 1, "PER"), 1.0)])["entities"][0]["text"] == "Ada"
    assert TASK.show(columns, []).plain == "Ada met"


def network(examples: list[NerSentence]) -> tuple[Tagger, MadeUp]:
    made = MadeUp.of(TASK, examples, elmo_at="both")
    torch.manual_seed(0)
    settings = NerSettings(hidden=5, layers=2, character_filters=0)
    return TASK.network(made.inputs, settings, TASK.labels(examples)), made


def test_nothing_depends_on_padding_or_on_the_batch(tmp_path: Path) -> None:
    examples = TASK.read(entity_files.write(tmp_path / "data", 6))
    tagger, made = network(examples)
    tagger.eval()
    alone = [float(tagger.loss(made.batch([example])).detach()) for example in examples]
    together = float(tagger.loss(made.batch(examples, padding=3)).detach())
    assert together == pytest.approx(sum(alone) / len(alone), rel=1e-5)
    found = predict_batch(tagger, made.batch(examples, padding=3))
    single = [predict_batch(tagger, made.batch([example]))[0] for example in examples]
    assert [[entity.span for entity in each] for each in found] == [[entity.span for entity in each] for each in single]
    for one, two in zip(found, single, strict=True):
        assert [entity.score for entity in one] == pytest.approx([entity.score for entity in two], rel=1e-4)


def test_every_type_has_all_its_tags() -> None:
    examples = [NerSentence(("a", "b"), (Span(0, 1, "X"), Span(1, 2, "Y-Z")))]
    tagger, _ = network(examples)
    assert tagger.tags == ["O", "B-X", "I-X", "E-X", "S-X", "B-Y-Z", "I-Y-Z", "E-Y-Z", "S-Y-Z"]


def test_data_without_entities_train_and_predict_none() -> None:
    examples = [NerSentence(("a", "b"), ()), NerSentence(("c",), ())]
    tagger, made = network(examples)
    assert TASK.labels(examples) == {"types": []} and float(tagger.loss(made.batch(examples)).detach()) == 0
    assert predict_batch(tagger, made.batch(examples)) == [[], []]
    assert TASK.score(examples, [[], []]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}
