"""Textual entailment: the formats, the enhanced sequential inference model, and its predictions."""

from __future__ import annotations

import gzip
import json
import logging
import lzma
from pathlib import Path
from random import Random

import pytest
import torch
from rich.text import Text
from task_batches import MadeUp, overfit, slow_attention

from elmokit.errors import InputError
from elmokit.tasks.shared.classification import Classified
from elmokit.tasks.snli import Esim, Pair, Snli, SnliSettings, align, enhance

TASK = Snli()
SMALL = SnliSettings(elmo=False, hidden=4, dropout=0)
PAIR = Pair(("A", "man", "sleeps", "."), ("He", "is", "n't", "awake", "."), "entailment")


def esim(made: MadeUp) -> Esim:
    torch.manual_seed(1)
    return TASK.network(made.inputs, SMALL, TASK.labels([]))


def record(label: str = "entailment", **changes: object) -> str:
    fields = {"gold_label": label, "sentence1": "A man sleeps.", "sentence2": "He isn't awake.", "pairID": "7"}
    return json.dumps({**fields, **changes})


# ---- formats


def test_snli_json_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "snli.jsonl"
    path.write_text(f"{record()}\n\n{record('-')}\n{record('-')}\n{record('neutral')}\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        pairs = TASK.read(path)
    assert pairs == [PAIR, Pair(PAIR.premise, PAIR.hypothesis, "neutral")]
    assert "snli.jsonl: skipped 2 pairs without a gold label (-)" in caplog.text


def test_nothing_is_said_when_all_pairs_have_labels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "snli.jsonl"
    path.write_text(record(), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert TASK.read(path) == [PAIR]
    assert not caplog.text


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_a_table_plain_or_compressed(tmp_path: Path, suffix: str, opener) -> None:
    path = tmp_path / f"pairs.tsv{suffix}"
    with opener(path, "wt", encoding="utf-8") as file:
        file.write("gold_label\tsentence1\tsentence2\n")
        file.write("entailment\tA man sleeps.\tHe isn't awake.\n-\tOne.\tTwo.\n")
        file.write('contradiction\tShe said "no".\tShe said yes\n')
    assert TASK.read(path) == [
        PAIR,
        Pair(("She", "said", '"', "no", '"', "."), ("She", "said", "yes"), "contradiction"),
    ]


def test_a_table_with_other_columns_in_another_order(tmp_path: Path) -> None:
    path = tmp_path / "snli_1.0_dev.txt"
    path.write_text("sentence2\tid\tsentence1\tgold_label\nHe isn't awake.\t5\tA man sleeps.\tentailment\textra\n")
    assert TASK.read(path) == [PAIR]


@pytest.mark.parametrize("name", ["entailment_judgment", "entailment_label"])
def test_sick(tmp_path: Path, name: str) -> None:
    path = tmp_path / "SICK.txt"
    path.write_text(
        f"pair_ID\tsentence_A\tsentence_B\trelatedness_score\t{name}\n"
        "1\tA man sleeps.\tHe isn't awake.\t4.5\tENTAILMENT\n"
        "2\tA man sleeps.\tNo man sleeps.\t3.1\tCONTRADICTION\n"
    )
    pairs = TASK.read(path)
    assert pairs == [PAIR, Pair(PAIR.premise, ("No", "man", "sleeps", "."), "contradiction")]
    assert pairs[0].premise is pairs[1].premise  # kept once


HEADER = "gold_label\tsentence1\tsentence2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label\tfirst\tsecond\n", "line 1: expected JSON lines or a header line with the columns sentence1.*found"),
        (HEADER + "neutral\tOne.\n", "line 2: expected 3 tab-separated columns, found 2"),
        (HEADER + "neutral\tA b.\tC.\nmaybe\tA.\tB.\n", "line 3: expected a label entailment.*found 'maybe'"),
        (HEADER + "\tA b.\tC.\n", "line 2: expected a label .*found ''"),
        (HEADER + "neutral\t \tC.\n", "line 2: premise: expected at least one word"),
        (HEADER + "neutral\tC.\t\n", "line 2: hypothesis: expected at least one word"),
        ('{"id": ' + "1" * 5000 + "}\n", "line 1: expected a JSON object, found an integer of 5000 digits"),
        ('{"id": ' + "[" * 5000 + "}\n", "line 1: expected a JSON object, found more than 50 nested lists"),
        (record() + "\n{broken\n", "line 2: expected a JSON object, found a syntax error at character 2"),
        (record() + "\n[1]\n", "line 2: expected a JSON object, found"),
        (record(sentence2=None) + "\n", "line 1: expected a JSON object with a text 'sentence2', found none"),
        (record(sentence1=3) + "\n", "line 1: .*'sentence1', found 3"),
        (record(gold_label=["neutral"]) + "\n", "line 1: .*'gold_label'"),
        ('{"sentence1": "A.", "sentence2": "B."}\n', "line 1: expected a label .*found ''"),
        ('{"a":' * 100_000 + "\n", "line 1: expected a JSON object"),
    ],
)
def test_a_broken_line_names_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pairs"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"pairs: {message}"):
        TASK.read(path)


def test_the_published_counts(shared_data: Path) -> None:
    pairs = TASK.read(shared_data / "nli" / "snli" / "snli_1.0_dev.jsonl.gz")
    assert [sum(pair.label == label for pair in pairs) for label in TASK.labels(pairs)["relation"]] == [
        3329,
        3235,
        3278,
    ]
    trial = TASK.read(shared_data / "nli" / "sick" / "SICK_trial.txt")
    assert len(trial) == 500


# ---- the network

PAIRS = [
    Pair(("a", "man", "sleeps"), ("he", "sleeps"), "entailment"),
    Pair(("dogs",), ("a", "man", "and", "dogs", "run"), "neutral"),
    Pair(("she", "and", "he", "run", "a", "race", "and"), ("she", "sleeps", "and"), "contradiction"),
]


def test_alignment_equals_its_slow_twin() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(3, 4, 5, generator=generator), torch.randn(3, 6, 5, generator=generator)
    a_lengths, b_lengths = [4, 1, 3], [2, 6, 1]
    a_mask = torch.arange(4) < torch.tensor(a_lengths).unsqueeze(-1)
    b_mask = torch.arange(6) < torch.tensor(b_lengths).unsqueeze(-1)
    a_aligned, b_aligned = align(a, b, a_mask, b_mask)
    for row, (n, m) in enumerate(zip(a_lengths, b_lengths, strict=True)):
        first, second = a[row, :n].tolist(), b[row, :m].tolist()
        torch.testing.assert_close(a_aligned[row, :n], torch.tensor(slow_attention(first, second)))
        torch.testing.assert_close(b_aligned[row, :m], torch.tensor(slow_attention(second, first)))


def test_enhancement() -> None:
    x, aligned = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, -4.0]]])
    assert enhance(x, aligned).tolist() == [[[1, 2, 3, -4, -2, 6, 3, -8]]]


@pytest.mark.parametrize("elmo_at", [None, "input", "both"])
def test_no_score_depends_on_padding_or_on_the_company(elmo_at: str | None) -> None:
    made = MadeUp.of(TASK, PAIRS, elmo_at=elmo_at)
    network = esim(made).eval()
    together = network.logits(made.batch(PAIRS))
    assert together.shape == (3, 3)
    torch.testing.assert_close(network.logits(made.batch(PAIRS, padding=4)), together)
    for row, pair in enumerate(PAIRS):
        torch.testing.assert_close(network.logits(made.batch([pair]))[0], together[row])


@pytest.mark.parametrize("pair", PAIRS)
def test_scores_equal_the_formulas(pair: Pair) -> None:
    """The network again, for one pair without padding, one line a formula."""
    made = MadeUp.of(TASK, PAIRS, elmo_at="both")
    network = esim(made).eval()
    batch = made.batch([pair])
    a, b = (made.inputs.output(text, network.encoder(made.inputs(text), text.mask)) for text in batch.texts)
    pooled = []
    for x, other in ((a, b), (b, a)):
        aligned = torch.tensor([slow_attention(x[0].tolist(), other[0].tolist())])
        m = torch.cat([x, aligned, x - aligned, x * aligned], dim=-1)
        v = torch.relu(m @ network.projection.weight.T + network.projection.bias)
        v = network.composition(v, torch.ones(1, v.shape[1], dtype=torch.bool))[0]  # (T, 2H)
        pooled += [v.mean(dim=0), v.max(dim=0).values]
    hidden = torch.tanh(network.hidden.weight @ torch.cat(pooled) + network.hidden.bias)
    torch.testing.assert_close(network.logits(batch)[0], network.output.weight @ hidden + network.output.bias)


@pytest.mark.parametrize("elmo_at", [None, "both"])
def test_twenty_pairs_are_learned_by_heart(elmo_at: str | None) -> None:
    """Labels follow from nothing: only the network's memory can give them."""
    random = Random(0)
    vocabulary = [f"word{k}" for k in range(30)]
    sides = [tuple(random.choices(vocabulary, k=random.randint(1, 9))) for _ in range(40)]
    labels = TASK.labels([])["relation"]
    pairs = [Pair(a, b, random.choice(labels)) for a, b in zip(sides[:20], sides[20:], strict=True)]
    settings = SnliSettings(hidden=16, batch_size=5, epochs=15, patience=15, learning_rate=5e-3, dropout=0.1)
    assert overfit(TASK, pairs, settings, elmo_at=elmo_at) >= 95


def test_training_without_a_label_is_refused() -> None:
    unlabeled = [Pair(("a",), ("b",))]
    made = MadeUp.of(TASK, unlabeled)
    with pytest.raises(InputError, match=r"expected entailment, neutral, contradiction.*found none"):
        esim(made).loss(made.batch(unlabeled))


# ---- scores and predictions


def test_accuracy() -> None:
    predictions = [Classified(label, {label: 1.0}) for label in ("entailment", "contradiction", "contradiction")]
    assert TASK.score(PAIRS, predictions) == {"accuracy": pytest.approx(200 / 3)}


def test_predictions_are_probabilities_of_the_best_label() -> None:
    made = MadeUp.of(TASK, PAIRS)
    with torch.inference_mode():
        predictions = esim(made).eval().predict(made.batch(PAIRS))
    for prediction in predictions:
        assert list(prediction.probabilities) == ["entailment", "neutral", "contradiction"]
        assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert prediction.probability == max(prediction.probabilities.values())


@pytest.mark.parametrize(
    "line",
    ["A man sleeps.\tHe isn't awake.", '{"sentence1": "A man sleeps.", "sentence2": "He isn\'t awake."}', record("-")],
)
def test_raw_pairs(line: str) -> None:
    assert TASK.parse(line) == [Pair(PAIR.premise, PAIR.hypothesis)]


def test_a_blank_line_is_no_pair() -> None:
    assert TASK.parse(" \t ") == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Only one sentence.", "expected premise<TAB>hypothesis.*found 1 column"),
        ("One.\tTwo.\tThree.", "found 3 column"),
        ("One.\t ", "hypothesis: expected at least one word"),
        ('{"sentence1": "One."}', "a text 'sentence2', found none"),
    ],
)
def test_what_is_no_pair_is_refused(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TASK.parse(line)


def test_json_and_terminal() -> None:
    prediction = Classified("neutral", {"entailment": 0.25, "neutral": 0.5, "contradiction": 0.25})
    unlabeled = Pair(PAIR.premise, PAIR.hypothesis)
    assert TASK.to_json(unlabeled, prediction) == {
        "premise": "A man sleeps .",
        "hypothesis": "He is n't awake .",
        "label": "neutral",
        "probabilities": prediction.probabilities,
    }
    assert TASK.to_json(PAIR, prediction)["gold"] == "entailment"
    shown = TASK.show(PAIR, prediction)
    assert isinstance(shown, Text)
    assert shown.plain == "neutral 50%\n  A man sleeps .\n  => He is n't awake ."
    assert any("yellow" in str(span.style) for span in shown.spans)
