"""Sentiment: trees, the biattentive classification network, and its predictions."""

from __future__ import annotations

import gzip
import json
import lzma
import math
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from task_batches import MadeUp, overfit, slow_attention

from elmokit.errors import InputError
from elmokit.tasks.runs.task_run import Data, open_run
from elmokit.tasks.shared.classification import Classified
from elmokit.tasks.shared.masked import masked_max, masked_mean, masked_softmax
from elmokit.tasks.sst import Bcn, Maxout, Phrase, Sst, SstSentence, SstSettings, read_tree, self_biattention

TASK = Sst()
TREE = "(4 (2 The) (4 (3 (2 -LRB-) (3 (2 1\\/2) (2 -RRB-))) (3 shines)))"
SMALL = SstSettings(elmo=False, hidden=4, dropout=0, encoder_dropout=0, integrator_dropout=0, output_dropout=0)


def bcn(made: MadeUp) -> Bcn:
    torch.manual_seed(1)
    return TASK.network(made.inputs, SMALL, TASK.labels([]))


# ---- trees


def test_a_tree_gives_its_words_its_label_and_all_phrases() -> None:
    sentence = read_tree(TREE)
    assert sentence.tokens == ("The", "(", "1/2", ")", "shines")
    assert sentence.label == "4"
    assert sentence.phrases == (
        Phrase(0, 1, "2"),
        Phrase(1, 2, "2"),
        Phrase(2, 3, "2"),
        Phrase(3, 4, "2"),
        Phrase(2, 4, "3"),
        Phrase(1, 4, "3"),
        Phrase(4, 5, "3"),
        Phrase(1, 5, "4"),
    )


def test_one_word_is_a_tree_without_phrases() -> None:
    assert read_tree("(1 Dull)") == SstSentence(("Dull",), "1")


def test_quotation_marks_are_plain_ones() -> None:
    assert read_tree("(2 (2 (2 ``) (2 ''))  (2 (2 `) (2 ')))").tokens == ('"', '"', "'", "'")


def test_a_no_break_space_is_part_of_a_word() -> None:
    assert read_tree("(2 (2 2\u00a01\\/2) (2 stars))").tokens == ("2\u00a01/2", "stars")


words = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=4)
trees = st.recursive(
    st.tuples(st.sampled_from("01234"), words), lambda below: st.tuples(st.sampled_from("01234"), below, below)
)


def written(tree: tuple) -> str:
    return f"({tree[0]} {' '.join(part if isinstance(part, str) else written(part) for part in tree[1:])})"


def nodes(tree: tuple, start: int = 0) -> tuple[list[str], list[Phrase]]:
    """Words and nodes of a tree, by recursion, children before their parent."""
    leaves: list[str] = []
    found: list[Phrase] = []
    for part in tree[1:]:
        if isinstance(part, str):
            leaves.append(part)
        else:
            below, phrases = nodes(part, start + len(leaves))
            leaves += below
            found += phrases
    return leaves, [*found, Phrase(start, start + len(leaves), tree[0])]


@given(trees)
def test_any_tree_is_read_as_recursion_reads_it(tree: tuple) -> None:
    leaves, phrases = nodes(tree)
    assert read_tree(written(tree)) == SstSentence(tuple(leaves), tree[0], tuple(phrases[:-1]))


def test_a_very_deep_tree() -> None:
    depth = 20_000
    sentence = read_tree("(2 (2 so) " * depth + "(3 good)" + ")" * depth)
    assert len(sentence.tokens) == depth + 1
    assert len(sentence.phrases) == 2 * depth


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 a) (2 film)", "1 unclosed brackets"),
        ("(3 (2 a) (2 film)))", r"'\)' at character 19"),
        ("(3 a) (2 b)", r"found '\(2' at character 7"),
        ("good film", "expected one tree.* found 'good' at character 1"),
        ("(3 good film)", "found 'film' at character 9"),
        ("(3 (2 a) film)", "found 'film' at character 10"),
        ("(3 good (2 film))", r"found '\(2' at character 9"),
        ("(3)", r"found '\)' at character 3"),
        ("(7 good)", "expected a label 0 to 4.*found '7' at character 1"),
        ("(good)", "expected a label 0 to 4.*found 'good'"),
        ("((3 good))", "expected a label 0 to 4.*found ''"),
    ],
)
def test_a_broken_tree_names_file_line_and_place(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "trees.txt"
    path.write_text(f"(3 fine)\n\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"trees\.txt: line 3: .*{message}"):
        TASK.read(path)


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_files_may_be_compressed_and_have_blank_lines(tmp_path: Path, suffix: str, opener) -> None:
    path = tmp_path / f"trees.txt{suffix}"
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(f"{TREE}\n\n(0 (1 Bad) (2 .))\n")
    sentences = TASK.read(path)
    assert [sentence.label for sentence in sentences] == ["4", "0"]
    assert TASK.texts(sentences[1]) == [("Bad", ".")]


def test_the_published_counts(shared_data: Path) -> None:
    dev, test = (TASK.read(shared_data / "sst" / f"{name}.txt") for name in ("dev", "test"))
    assert [sum(s.label == label for s in dev) for label in "01234"] == [139, 289, 229, 279, 165]
    assert [sum(s.label == label for s in test) for label in "01234"] == [279, 633, 389, 510, 399]
    assert sum(len(s.tokens) for s in dev) == 21_274
    assert sum(1 + len(s.phrases) for s in dev) == 41_447


# ---- pooling and attention over real tokens


def test_masked_functions_see_tokens_only() -> None:
    x = torch.tensor([[[1.0, -5.0], [3.0, -1.0], [99.0, 99.0]]])
    mask = torch.tensor([[True, True, False]])
    assert masked_max(x, mask).tolist() == [[3.0, -1.0]]
    assert (-masked_max(-x, mask)).tolist() == [[1.0, -5.0]]
    assert masked_mean(x, mask).tolist() == [[2.0, -3.0]]
    weights = masked_softmax(torch.tensor([[0.0, math.log(3), 99.0]]), mask)
    assert weights[0].tolist() == pytest.approx([0.25, 0.75, 0.0])


def test_softmax_over_no_tokens_is_zero_and_so_is_its_gradient() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False] * 3, [True] * 3]))
    weights.square().sum().backward()
    assert weights[0].tolist() == [0, 0, 0]
    assert scores.grad is not None and scores.grad.isfinite().all() and scores.grad[0].tolist() == [0, 0, 0]


def test_biattention_equals_its_slow_twin() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = [4, 1, 3]
    h = torch.randn(3, 4, 5, generator=generator)
    mask = torch.arange(4) < torch.tensor(lengths).unsqueeze(-1)
    fast = self_biattention(h, mask)
    for row, length in enumerate(lengths):
        slow = torch.tensor(slow_attention(h[row, :length].tolist(), h[row, :length].tolist()))
        torch.testing.assert_close(fast[row, :length], slow)


# ---- the network

SENTENCES = [
    SstSentence(("a", "fine", "film"), "4", (Phrase(0, 1, "2"), Phrase(1, 3, "3"))),
    SstSentence(("dull",), "0"),
    SstSentence(
        ("not", "a", "dull", "film", "at", "all"), "3", (Phrase(0, 4, "3"), Phrase(2, 4, "1"), Phrase(4, 6, "2"))
    ),
]


@pytest.mark.parametrize("elmo_at", [None, "input", "both"])
def test_no_score_depends_on_padding_or_on_the_company(elmo_at: str | None) -> None:
    made = MadeUp.of(TASK, SENTENCES, elmo_at=elmo_at)
    network = bcn(made).eval()
    together = network.logits(made.batch(SENTENCES))
    assert together.shape == (3, 5)
    torch.testing.assert_close(network.logits(made.batch(SENTENCES, padding=4)), together)
    for row, sentence in enumerate(SENTENCES):
        torch.testing.assert_close(network.logits(made.batch([sentence]))[0], together[row])


def test_scores_equal_the_formulas() -> None:
    """The network again, for one sentence without padding, one line a formula."""
    made = MadeUp.of(TASK, SENTENCES, elmo_at="both")
    network = bcn(made).eval()
    batch = made.batch(SENTENCES[2:])
    x, mask = made.inputs(batch.texts[0]), batch.texts[0].mask  # (1, T, n), all true
    e = torch.relu(x @ network.pre_encoder.weight.T + network.pre_encoder.bias)
    h = made.inputs.output(batch.texts[0], network.encoder(e, mask))
    c = torch.tensor([slow_attention(h[0].tolist(), h[0].tolist())])
    g = network.integrator(torch.cat([h, h - c, h * c], dim=-1), mask)[0]  # (T, 2H)
    beta = torch.softmax(g @ network.self_attention.weight[0] + network.self_attention.bias, dim=0)
    pooled = torch.cat([g.max(dim=0).values, g.mean(dim=0), g.min(dim=0).values, beta @ g])
    torch.testing.assert_close(network.logits(batch)[0], network.output(pooled.unsqueeze(0))[0])


def test_maxout_is_the_largest_of_four_maps() -> None:
    torch.manual_seed(0)
    layer = Maxout(n_in=3, n_out=2, dropout=0.0)
    x = torch.randn(6, 3)
    maps = x @ layer.linear.weight.T + layer.linear.bias  # (6, 8)
    expected = torch.stack([maps[:, :4].max(dim=1).values, maps[:, 4:].max(dim=1).values], dim=1)
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("elmo_at", [None, "both"])
def test_twenty_sentences_are_learned_by_heart(elmo_at: str | None) -> None:
    """Labels follow from nothing: only the network's memory can give them."""
    random = Random(0)
    vocabulary = [f"word{k}" for k in range(30)]
    sentences = [
        SstSentence(tuple(random.choices(vocabulary, k=random.randint(1, 9))), random.choice("01234"))
        for _ in range(20)
    ]
    settings = replace(SMALL, hidden=16, batch_size=5, epochs=20, patience=20, learning_rate=5e-3)
    assert overfit(TASK, sentences, settings, elmo_at=elmo_at) >= 95


# ---- phrases


def test_phrases_are_sentences_of_their_own_each_once() -> None:
    sentences = [read_tree("(3 (2 a) (3 (3 good) (2 film)))"), read_tree("(3 (3 good) (2 film))")]
    with_phrases = TASK.training_examples(sentences, SstSettings(phrases=True))
    assert sorted((sentence.tokens, sentence.label) for sentence in with_phrases) == [
        (("a",), "2"),
        (("a", "good", "film"), "3"),
        (("film",), "2"),
        (("good",), "3"),
        (("good", "film"), "3"),
    ]
    assert all(not sentence.phrases for sentence in with_phrases)


def test_without_the_flag_there_are_whole_sentences_alone() -> None:
    assert TASK.training_examples(SENTENCES, SstSettings()) == SENTENCES


@pytest.mark.parametrize("phrases", [False, True])
def test_only_trees_that_are_trained_on_give_phrases(tmp_path: Path, phrases: bool) -> None:
    """Neither those of the test file nor those that are held out for dev; and dev and test are whole sentences."""
    trees = [f"({k % 5} (2 a{k}) (3 (2 b{k}) (4 c{k})))" for k in range(12)]
    (tmp_path / "train.txt").write_text("\n".join(trees[:10]), encoding="utf-8")
    (tmp_path / "test.txt").write_text("\n".join(trees[10:]), encoding="utf-8")
    given = {"elmo": False, "word_dim": 4, "hidden": 4, "phrases": phrases, "hold_out": 0.2}
    data = Data((str(tmp_path / "train.txt"),), None, str(tmp_path / "test.txt"))
    run = open_run(TASK, given, data, tmp_path / "run")
    trained_on = {0, 1, 2, 3, 5, 6, 7, 8}
    assert [sentence.tokens[0] for sentence in run.dev] == ["a4", "a9"]
    assert [sentence.tokens for sentence in run.test] == [("a10", "b10", "c10"), ("a11", "b11", "c11")]
    assert {len(sentence.tokens) for sentence in run.dev} == {3}
    found = {(sentence.tokens, sentence.label) for sentence in run.train}
    expected = {((f"a{k}", f"b{k}", f"c{k}"), str(k % 5)) for k in trained_on}
    if phrases:
        for k in trained_on:
            expected |= {((f"a{k}",), "2"), ((f"b{k}",), "2"), ((f"c{k}",), "4"), ((f"b{k}", f"c{k}"), "3")}
    assert found == expected and len(run.train) == len(found)
    record = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert record["examples"] == {"train": 40 if phrases else 8, "dev": 2, "test": 2}


# ---- labels, scores, predictions


def test_training_without_a_label_is_refused() -> None:
    unlabeled = [SstSentence(("a", "film"))]
    made = MadeUp.of(TASK, unlabeled)
    with pytest.raises(InputError, match="found none"):
        bcn(made).loss(made.batch(unlabeled))


def test_a_sentence_without_words_is_refused() -> None:
    with pytest.raises(InputError, match="at least one word"):
        SstSentence(())


def certain(label: str) -> Classified:
    return Classified(label, {other: float(other == label) for other in "01234"})


def test_accuracy() -> None:
    right, wrong = [certain("4"), certain("0"), certain("3")], [certain("0"), certain("1"), certain("4")]
    assert TASK.score(SENTENCES, right) == {"accuracy": 100}
    assert TASK.score(SENTENCES, wrong) == {"accuracy": 0}
    assert TASK.score(SENTENCES, [*right[:2], wrong[2]]) == {"accuracy": pytest.approx(200 / 3)}


def test_accuracy_of_nothing_or_without_gold_is_no_number() -> None:
    with pytest.raises(InputError, match="found none"):
        TASK.score([], [])
    with pytest.raises(InputError, match="1 without"):
        TASK.score([SstSentence(("a",))], [certain("1")])


def test_predictions_are_probabilities_of_the_best_label() -> None:
    made = MadeUp.of(TASK, SENTENCES)
    network = bcn(made).eval()
    with torch.inference_mode():
        predictions = network.predict(made.batch(SENTENCES))
    assert len(predictions) == 3
    for prediction in predictions:
        assert list(prediction.probabilities) == list("01234")
        assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert prediction.probability == max(prediction.probabilities.values())


def test_raw_text_is_tokenized_and_blank_lines_are_nothing() -> None:
    assert TASK.parse("It isn't bad.") == [SstSentence(("It", "is", "n't", "bad", "."))]
    assert TASK.parse("  ") == []


def test_json_and_terminal() -> None:
    prediction = Classified("3", {"0": 0.0, "1": 0.05, "2": 0.15, "3": 0.75, "4": 0.05})
    sentence = SstSentence(("Not", "bad"))
    assert TASK.to_json(sentence, prediction) == {
        "text": "Not bad",
        "sentiment": "positive",
        "label": "3",
        "probabilities": prediction.probabilities,
    }
    assert TASK.to_json(SstSentence(("Not", "bad"), "4"), prediction)["gold"] == "4"
    shown = TASK.show(sentence, prediction)
    assert isinstance(shown, Text)
    assert shown.plain == "positive 75%  Not bad"
    assert any("green" in str(span.style) for span in shown.spans)
