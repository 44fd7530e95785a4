"""Probes: what they learn is there, what is not there they do not learn, and the baseline is worked out by hand."""

from __future__ import annotations

import gzip
import itertools
from dataclasses import replace
from pathlib import Path

import models
import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result
from word_elmo import WordElmo

from elmokit.analysis.probe.majority_tag import majority_per_word
from elmokit.analysis.probe.probe_fit import ProbeSettings, ProbeVectors, fit_probes, predict_tags
from elmokit.analysis.probe.probe_run import probe, random_model
from elmokit.analysis.shared.layers import Meter, View, views
from elmokit.analysis.shared.results import read_results
from elmokit.cli import app
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError, InputError
from elmokit.text.tagged_text import TaggedText, read_tagged
from elmokit.weights import load

CONLLU = """\
# sent_id = 1
1-2\tWe'll\t_\t_\t_\t_\t_\t_\t_\t_
1\tWe\twe\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2\t'll\twill\tAUX\tMD\t_\t3\taux\t_\t_
3\trun\trun\tVERB\tVB\t_\t0\troot\t_\t_
3.1\trun\trun\tVERB\tVB\t_\t_\t_\t0:x\t_

# sent_id = 2
# a comment
1\t#\t#\tSYM\tNN\t_\t2\tx\t_\t_
2\tgo on\tgo\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
"""
CONLL = "-DOCSTART- -X- O\n\nWe PRP B-NP\nrun VB B-VP\n\n# # B-NP\n12 CD I-NP\n"


def tagged(sentences: list[list[str]], tags: list[str]) -> TaggedText:
    return TaggedText(sentences, tags, Path("memory"))


def after_a(n: int, seed: int) -> TaggedText:
    """The tag says whether the word before is an a: context alone tells."""
    rng = np.random.default_rng(seed)
    sentences = [[str(word) for word in rng.choice(list("abc"), size=6)] for _ in range(n)]
    before = [word for sentence in sentences for word in ["^", *sentence[:-1]]]
    return tagged(sentences, ["yes" if word == "a" else "no" for word in before])


def test_a_probe_learns_what_a_layer_holds_and_no_more() -> None:
    train, test = after_a(150, 1), after_a(60, 2)
    elmo: Elmo = WordElmo()  # type: ignore[assignment]
    report = probe(elmo, train, test, views("all", 2), settings=ProbeSettings(learning_rate=0.05))
    assert report.accuracy["layer 1"] == 100  # four different vectors in six dimensions
    share = 100 * test.tags.count("no") / len(test.tags)
    assert report.accuracy["layer 0"] == pytest.approx(share, abs=1e-9)  # it can but guess the more frequent one
    assert report.accuracy["layer 0"] < report.accuracy["average"] <= 100
    assert report.majority == pytest.approx(share, abs=1e-9)
    assert (report.n_tags, report.unseen_tags, report.unknown_words, report.control) == (2, {}, 0, None)
    assert (report.training_tokens, report.test_tokens) == (900, 360)


def test_views_train_together_as_they_do_alone() -> None:
    text = after_a(30, 1)
    tags = np.array([tag == "yes" for tag in text.tags], dtype=np.int64)
    settings = ProbeSettings(epochs=2, batch_size=16)
    with ProbeVectors(WordElmo(), text.sentences, Meter(None, 1)) as vectors:  # type: ignore[arg-type]
        together = fit_probes(vectors, tags, 2, views("all", 2), settings)
        for number, view in enumerate(views("all", 2)):
            alone = fit_probes(vectors, tags, 2, [view], settings)
            torch.testing.assert_close(alone.weight[0], together.weight[number])
            torch.testing.assert_close(alone.bias[0], together.bias[number])
        again = fit_probes(vectors, tags, 2, views("all", 2), settings)
        other = fit_probes(vectors, tags, 2, views("all", 2), replace(settings, seed=2))
    assert torch.equal(again.weight, together.weight)
    assert not torch.equal(other.weight, together.weight)


def test_the_classifier_is_the_optimum_of_its_loss() -> None:
    """Against full-batch gradient descent on the standardized vectors, written out in numpy."""
    rng = np.random.default_rng(0)
    sentences = [[str(word) for word in rng.choice(list("abcdefgh"), size=5)] for _ in range(60)]
    tags = np.array([(ord(word) + int(rng.integers(3))) % 3 for sentence in sentences for word in sentence])
    with ProbeVectors(WordElmo(), sentences, Meter(None, 1)) as vectors:  # type: ignore[arg-type]
        view = [View("layer 0", 0)]
        probes = fit_probes(vectors, tags, 3, view, ProbeSettings(epochs=300, learning_rate=0.05, batch_size=300))
        x = vectors.of(slice(None), view)[0].double().numpy()
        logits = probes(vectors.of(slice(None), view))[0].detach().double().numpy()
        predicted = predict_tags(probes, vectors, view)[0]
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    weight, bias = np.zeros((z.shape[1], 3)), np.zeros(3)
    for _ in range(2000):
        error = softmax(z @ weight + bias) - np.eye(3)[tags]
        weight -= 0.5 * z.T @ error / len(z)
        bias -= 0.5 * error.mean(axis=0)
    assert loss(logits, tags) == pytest.approx(loss(z @ weight + bias, tags), rel=1e-3)
    assert (predicted == logits.argmax(axis=1)).all()


def softmax(logits: np.ndarray) -> np.ndarray:
    exponential = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponential / exponential.sum(axis=1, keepdims=True)


def loss(logits: np.ndarray, tags: np.ndarray) -> float:
    return float(-np.log(softmax(logits)[np.arange(len(tags)), tags]).mean())


def test_vectors_are_kept_in_half_precision() -> None:
    sentences = [["a", "b"], [], ["c"]]
    with ProbeVectors(WordElmo(), sentences, Meter(None, 1)) as vectors:  # type: ignore[arg-type]
        expected = np.concatenate([sentence.layers for sentence in WordElmo().embed(sentences)], axis=1)
        assert vectors.count == 3
        found = vectors.of(np.array([2, 0]), views("all", 2)).numpy()
    np.testing.assert_allclose(found[:2], expected[:, [2, 0]], rtol=1e-3)
    np.testing.assert_allclose(found[2], expected[:, [2, 0]].mean(axis=0), rtol=1e-3, atol=1e-3)


def test_majority_by_hand() -> None:
    train = tagged(
        [["the", "run", "run", "run"], ["saw", "saw", "the", "the"]], ["D", "N", "V", "V", "V", "N", "D", "D"]
    )
    # overall: D 3, V 3, N 2. run: V twice; saw: N and V once each, V being more frequent overall; others: D by alphabet
    assert majority_per_word(train, ["the", "run", "saw", "Run", "x"]) == ["D", "V", "V", "D", "D"]


def test_tags_unseen_in_training_are_errors() -> None:
    train = tagged([["a", "b"], ["a", "b"]], ["A", "B", "A", "B"])
    test = tagged([["a", "b", "b", "c"]], ["A", "B", "X", "Y"])
    elmo: Elmo = WordElmo()  # type: ignore[assignment]
    report = probe(elmo, train, test, views("0", 2), settings=ProbeSettings(epochs=50, learning_rate=0.05))
    assert report.accuracy == {"layer 0": 50}
    assert report.majority == 50
    assert report.unseen_tags == {"X": 1, "Y": 1}
    assert report.unknown_words == 25


@pytest.mark.parametrize(
    ("column", "tags"),
    [("upos", "PRON AUX VERB SYM VERB"), ("xpos", "PRP MD VB NN VB"), ("8", "nsubj aux root x root")],
)
def test_conllu(tmp_path: Path, column: str, tags: str) -> None:
    path = tmp_path / "x.conllu.gz"
    path.write_bytes(gzip.compress(CONLLU.encode()))
    text = read_tagged(path, column)
    assert text.sentences == [["We", "'ll", "run"], ["#", "go on"]]
    assert text.tags == tags.split()
    assert read_tagged(path, column, word_column=3).sentences == [["we", "will", "run"], ["#", "go"]]


def test_other_columns(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(CONLL)
    text = read_tagged(tmp_path / "x.txt", "3")
    assert text.sentences == [["We", "run"], ["#", "12"]]
    assert text.tags == ["B-NP", "B-VP", "B-NP", "I-NP"]


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("x.conllu", CONLLU, "pos", "column: expected 1 to 10 or one of id, form, .* found 'pos'"),
        ("x.conllu", CONLLU, "11", "column: expected 1 to 10"),
        ("x.conllu", CONLLU.replace("\t", " "), "upos", "line 2.* expected at least 10 columns"),
        ("x.txt", CONLL, "upos", r"column: expected a number from 1 for x\.txt, found 'upos'"),
        ("x.txt", CONLL, "0", "column: expected a number from 1"),
        ("x.txt", CONLL, "4", "line 1: expected at least 4 columns, found 3"),
        ("x.txt", "\n\n", "2", "expected sentences of words with tags, found none"),
        ("x.txt", "-DOCSTART- O\n\n", "2", "expected sentences of words with tags, found none"),
    ],
)
def test_broken_columns(tmp_path: Path, name: str, content: str, column: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises((ConfigError, InputError), match=message):
        read_tagged(tmp_path / name, column)


def test_nothing_to_tell_apart() -> None:
    text = tagged([["a", "b"]], ["_", "_"])
    with pytest.raises(InputError, match="memory: expected two tags or more, found only '_'; name another column"):
        probe(WordElmo(), text, text, views("0", 2))  # type: ignore[arg-type]


def test_settings() -> None:
    for values in ({"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}):
        with pytest.raises(ConfigError, match=f"^{next(iter(values))}: expected"):
            ProbeSettings(**values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.write_variant(tmp_path_factory.mktemp("models") / "small", "usual")[0]


def test_the_control_has_the_same_shape_and_other_weights(folder: Path) -> None:
    model = load(folder)
    first, again, other = (random_model(model, seed) for seed in (1, 1, 2))
    assert first.config == model.config
    assert first.fingerprint == again.fingerprint
    assert len({model.fingerprint, first.fingerprint, other.fingerprint}) == 3


def letters(words: str) -> str:
    """CoNLL-U in which every letter is a word and its capital the tag."""
    rest = "\t_" * 6
    return "".join(f"{n}\t{word}\t_\t{word.upper()}{rest}\n" for n, word in enumerate(words, start=1))


def command(folder: Path, *options: object) -> Result:
    arguments = ["probe", "--model", folder, *options]
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_command(folder: Path, tmp_path: Path) -> None:
    train, test = tmp_path / "train.txt", tmp_path / "test.conllu"
    train.write_text("".join(f"{word} {word.upper()}\n" for word in "abcd" * 20))
    test.write_text(letters("abe"))
    result = command(folder, "--train", train, "--test", train, "--column", 2, "--control", "-o", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if "." in line]
    assert rows[0] == ["most", "frequent", "tag", "of", "the", "word", "100.00"]
    assert [row[:2] for row in rows[1:4]] == [["layer", "0"], ["layer", "1"], ["layer", "2"]]
    assert all(len(row) == 4 for row in rows[1:4])  # and random weights
    assert rows[1][2] == "100.00"  # every word has its own tag
    results = read_results(tmp_path / "r.json")
    assert results.numbers["column"] == "2" and results.numbers["majority"] == 100
    assert list(results.numbers["accuracy"]) == list(results.numbers["control"])
    assert len(results.data) == 2
    # tags of another file, one of them new
    train_u = tmp_path / "train.conllu"
    train_u.write_text(letters("abcd" * 20))
    result = command(folder, "--train", train_u, "--test", test, "--layers", "0,top", "--batch-size", 8, "--seed", 5)
    assert result.exit_code == 0, result.output
    assert "note: tags that --train does not have, counted as errors: E (1)" in result.stderr
    assert "33.3% of them unknown words" in result.stderr
    assert [line.split()[1] for line in result.stdout.splitlines() if "layer" in line] == ["0", "2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--train", "no.conllu", "--test", "no.conllu"], "no.conllu: expected a readable text file"),
        (["--train", "{x}", "--test", "{x}", "--layers", "9"], "--layers: expected all, or some of 0 to 2"),
        (["--train", "{x}", "--test", "{x}", "--column", "tag"], "--column: expected 1 to 10 or one of"),
        (["--train", "{x}", "--test", "{x}", "--learning-rate", "2"], "--learning-rate: expected a number between"),
        (["--train", "{x}", "--test", "{x}", "-o", "{x}"], "exists already; use --overwrite to replace it"),
    ],
)
def test_faults_are_one_line(folder: Path, tmp_path: Path, options: list[str], message: str) -> None:
    path = tmp_path / "x.conllu"
    path.write_text(CONLLU)
    result = command(folder, *(option.replace("{x}", str(path)) for option in options))
    assert result.exit_code == 2
    assert result.stderr.startswith("elmo: ") and result.stderr.count("\n") == 1
    assert message in result.stderr


def test_temporary_files_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Broken(WordElmo):
        def embed(self, sentences: list[list[str]], **options: object) -> object:  # type: ignore[override]
            yield from itertools.islice(super().embed(sentences), 1)
            raise InputError("the network is gone")

    with pytest.raises(InputError, match="the network is gone"):
        ProbeVectors(Broken(), [["a"], ["b"]], Meter(None, 1))  # type: ignore[arg-type]
    with ProbeVectors(WordElmo(), [["a"]], Meter(None, 1)):  # type: ignore[arg-type]
        pass
    assert not list(tmp_path.iterdir())
