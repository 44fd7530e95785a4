"""Parts of speech: reading, predicting, showing, learning."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_taggers
from task_batches import MadeUp

from elmokit.errors import InputError
from elmokit.tasks.pos import Pos, PosSentence, SoftmaxTagger, TokenTag, Upos
from elmokit.tasks.runs.task_model import TaskModel
from elmokit.tasks.shared.task_base import predict_batch


def test_universal_and_treebank_tags_of_conllu(tmp_path: Path) -> None:
    path = small_taggers.write(tmp_path / "x.conllu", "pos")
    assert Pos().read(path)[0] == PosSentence(("She", "sees", "chess", "."), ("PRP", "VBZ", "NN", "."))
    assert Upos().read(path)[0].tags == ("PRON", "VERB", "NOUN", "PUNCT")
    assert Upos().labels(Upos().read(path)) == {"tags": ["NOUN", "PRON", "PUNCT", "VERB"]}


def test_columns_have_the_tag_second(tmp_path: Path) -> None:
    path = tmp_path / "eng.train"
    path.write_text("-DOCSTART- -X- O O\n\nAda NNP I-NP I-PER\nwrites VBZ I-VP O\n\nYes UH O O\n")
    assert [sentence.tags for sentence in Pos().read(path)] == [("NNP", "VBZ"), ("UH",)]
    path.write_text("Ada\n")
    with pytest.raises(InputError, match="line 1: expected at least 2 columns"):
        Pos().read(path)


def test_json_and_accuracy() -> None:
    [first, second] = Pos().parse("She sees it. “Yes”")
    assert first.tokens == ("She", "sees", "it", ".") and second.tokens == ('"', "Yes", '"')
    found = [TokenTag("X", 0.51234), TokenTag("Y", 1.0), TokenTag("X", 0.9)]
    assert Pos().to_json(second, found) == {
        "tokens": ['"', "Yes", '"'], "tags": ["X", "Y", "X"], "scores": [0.5123, 1.0, 0.9],
        "offsets": [[13, 14], [14, 17], [17, 18]],
    }  # fmt: skip
    assert Pos().show(second, found).plain == '"/X Yes/Y "/X '
    gold = [PosSentence(("a", "b", "c"), ("X", "Y", "Z")), PosSentence(("a",), ("X",))]
    assert Pos().score(gold, [found, [TokenTag("Y", 1.0)]]) == {"accuracy": 50.0}
    with pytest.raises(InputError, match="without tags"):
        Pos().score([PosSentence(("a",))], [[TokenTag("Y", 1.0)]])


def test_tags_that_training_never_saw_do_not_count_in_the_loss() -> None:
    """Padding and unknown tags have no part in the mean: a batch with them has the loss of the others."""
    examples = [PosSentence(("a", "b", "a"), ("X", "Y", "X")), PosSentence(("b",), ("Y",))]
    made = MadeUp.of(Pos(), examples)
    settings = Pos.settings(character_filters=0, dropout=0.0, hidden=4)
    network = SoftmaxTagger(inputs=made.inputs, settings=settings, tags=["X", "Y"]).eval()
    both = network.loss(made.batch(examples))
    one, other = (network.loss(made.batch([example])) for example in examples)
    assert both.item() == pytest.approx((3 * one.item() + other.item()) / 4, rel=1e-5)
    new = [PosSentence(("a", "b", "a"), ("X", "NEW", "X")), examples[1]]
    assert 0 < network.loss(made.batch(new)).item() < 10
    assert [len(row) for row in predict_batch(network, made.batch(examples))] == [3, 1]


def test_a_small_run_learns(tmp_path: Path) -> None:
    model = TaskModel.from_pretrained(small_taggers.train(tmp_path, "upos"), device="cpu")
    assert model.evaluate(tmp_path / "upos-test.conllu")["accuracy"] > 95
    [found] = model.predict([["She", "likes", "gold", "."]])
    assert found["tags"] == ["PRON", "VERB", "NOUN", "PUNCT"]
