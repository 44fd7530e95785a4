"""The scores of a whole run, worked out by hand; and the command `elmo wsd` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import models
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sense_files import (
    BANK_MONEY,
    BANK_RIVER,
    HOT_SPICY,
    HOT_WARM,
    RUN_MOVE,
    RUN_WORK,
    Word,
    write_corpus,
    write_wordnet,
)
from typer.testing import CliRunner, Result
from word_elmo import WordElmo

from elmokit.analysis.senses.sense_corpus import Instance, read_corpus
from elmokit.analysis.senses.sense_scores import Score, evaluate_senses, score
from elmokit.analysis.senses.wordnet import read_wordnet
from elmokit.analysis.shared.layers import views
from elmokit.analysis.shared.results import read_results
from elmokit.cli import app
from elmokit.weights import load

TRAIN: list[list[Word]] = [
    ["green", ("bank", "bank", "NOUN", [BANK_RIVER])],
    ["rich", ("bank", "bank", "NOUN", [BANK_MONEY])],
    ["dogs", ("run", "run", "VERB", [RUN_MOVE])],
    ["engines", ("run", "run", "VERB", [RUN_WORK])],
]
# by the word before it, as layer 1 of the stand-in sees it:
DEV: list[list[Word]] = [
    ["rich", ("bank", "bank", "NOUN", [BANK_MONEY])],  # right; first sense is wrong
    ["green", ("bank", "bank", "NOUN", [BANK_MONEY])],  # wrong; first sense, too
]
TEST: list[list[Word]] = [
    ["rich", ("bank", "bank", "NOUN", ["bank%1:06:00::", BANK_MONEY])],  # right by one key of two; first sense is not
    ["engines", ("run", "run", "VERB", [RUN_MOVE])],  # wrong; first sense is right
    ["a", ("hot", "hot", "ADJ", [HOT_WARM])],  # never seen: first sense, right
    ["a", ("hot", "hot", "ADJ", [HOT_SPICY])],  # never seen: first sense, wrong
    ["a", ("zork", "zork", "NOUN", ["zork%1:06:00::"])],  # in neither: no answer
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_corpus(tmp_path, "semcor", TRAIN)
    (tmp_path / "sets").mkdir()
    write_corpus(tmp_path / "sets", "semeval2007", DEV)
    write_corpus(tmp_path / "sets", "senseval2", TEST)
    write_wordnet(tmp_path / "wordnet")
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.write_variant(tmp_path_factory.mktemp("models") / "small", "usual")[0]


def test_by_hand(files: Path) -> None:
    sets = [read_corpus(files / "sets" / f"{name}.data.xml") for name in ("semeval2007", "senseval2")]
    report = evaluate_senses(
        WordElmo(),
        read_corpus(files / "semcor.data.xml"),
        sets,
        read_wordnet(files / "wordnet"),
        views("0,1", 2),  # type: ignore[arg-type]
    )
    assert report.scores["first sense"] == {
        "semeval2007": {"ALL": Score(0, 2, 2), "NOUN": Score(0, 2, 2)},
        "senseval2": {"ALL": Score(2, 4, 5), "NOUN": Score(0, 1, 2), "VERB": Score(1, 1, 1), "ADJ": Score(1, 2, 2)},
        "ALL": {"ALL": Score(2, 6, 7), "NOUN": Score(0, 3, 4), "VERB": Score(1, 1, 1), "ADJ": Score(1, 2, 2)},
        "test": {"ALL": Score(2, 4, 5), "NOUN": Score(0, 1, 2), "VERB": Score(1, 1, 1), "ADJ": Score(1, 2, 2)},
    }
    assert report.scores["layer 0"] == report.scores["first sense"]  # all vectors of a word are equal
    assert report.scores["layer 1"] == {
        "semeval2007": {"ALL": Score(1, 2, 2), "NOUN": Score(1, 2, 2)},
        "senseval2": {"ALL": Score(2, 4, 5), "NOUN": Score(1, 1, 2), "VERB": Score(0, 1, 1), "ADJ": Score(1, 2, 2)},
        "ALL": {"ALL": Score(3, 6, 7), "NOUN": Score(2, 3, 4), "VERB": Score(0, 1, 1), "ADJ": Score(1, 2, 2)},
        "test": {"ALL": Score(2, 4, 5), "NOUN": Score(1, 1, 2), "VERB": Score(0, 1, 1), "ADJ": Score(1, 2, 2)},
    }
    assert (report.main, report.instances, report.backed_off, report.unanswered) == ("test", 7, 3, 1)
    assert report.not_in_wordnet == 1  # zork
    assert (report.training_instances, report.training_senses, report.tokens) == (4, 4, 8 + 4 + 10)


def test_every_dimension_counts_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the wide dimension the river is nearer (10 against 40), by the narrow one the money, in units of each more."""
    places = {"banka": (0, 0), "bankb": (100, 0), "bankc": (60, 1), "bankd": (140, 1), "bankq": (90, 0)}
    monkeypatch.setattr(
        "word_elmo.word_vector", lambda word: np.array([*places.get(word, (0, 0)), 0, 0, 0, 0], np.float32)
    )
    senses = {"banka": BANK_MONEY, "bankb": BANK_MONEY, "bankc": BANK_RIVER, "bankd": BANK_RIVER}
    training = write_corpus(tmp_path, "train", [[(word, "bank", "NOUN", [key])] for word, key in senses.items()])
    asked = write_corpus(tmp_path, "test", [[("bankq", "bank", "NOUN", [BANK_MONEY])]])
    wordnet = read_wordnet(write_wordnet(tmp_path / "wordnet"))
    report = evaluate_senses(
        WordElmo(),
        read_corpus(training),
        [read_corpus(asked)],
        wordnet,
        views("0", 2),  # type: ignore[arg-type]
    )
    assert report.scores["layer 0"]["test"]["ALL"] == Score(1, 1, 1)


def test_percentages() -> None:
    made = Score(2, 4, 5)
    assert (made.precision, made.recall) == (50, 40)
    assert made.f1 == pytest.approx(2 * 50 * 40 / 90)
    assert (Score(0, 0, 5).precision, Score(0, 0, 5).recall, Score(0, 0, 5).f1) == (0, 0, 0)


def official(gold: dict[str, set[str]], system: dict[str, set[str]]) -> tuple[float, float, float]:
    """The scorer of the unified framework, rule by rule."""
    ok = notok = 0.0
    for name, answers in system.items():
        if name in gold:
            ok += sum(answer in gold[name] for answer in answers) / len(answers)
            notok += sum(answer not in gold[name] for answer in answers) / len(answers)
    precision = ok / (ok + notok) if ok + notok else 0.0
    recall = ok / len(gold)
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.sets(st.sampled_from("abc"), min_size=1), st.sampled_from(["a", "b", None])), min_size=1))
def test_as_the_official_scorer(pairs: list[tuple[set[str], str | None]]) -> None:
    instances = [Instance(str(k), "x", "NOUN", k, k + 1, tuple(gold)) for k, (gold, _) in enumerate(pairs)]
    ours = score(instances, [answer for _, answer in pairs])
    gold = {str(k): keys for k, (keys, _) in enumerate(pairs)}
    theirs = official(gold, {str(k): {answer} for k, (_, answer) in enumerate(pairs) if answer is not None})
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx([100 * number for number in theirs])


def wsd(files: Path, *options: object) -> Result:
    arguments = ["wsd", "--train", files / "semcor.data.xml", "--wordnet", files / "wordnet", *options]
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_command(files: Path, model: Path) -> None:
    result = wsd(files, "--eval", files / "sets", "--model", model, "-o", files / "wsd.json")
    assert result.exit_code == 0, result.output
    rows = {line.split("  ")[1]: line.split()[-8:] for line in result.stdout.splitlines() if "." in line}
    assert list(rows) == ["first sense", "layer 0", "layer 1", "layer 2", "average"]
    assert rows["first sense"][-7:] == ["0.0", "44.4", "30.8", "44.4", "0.0", "100.0", "50.0"]
    assert "semeval2007   senseval2    ALL   test   NOUN    VERB    ADJ" in result.stdout
    assert "4 senses; 3 of 7 instances have a lemma that --train lacks: first sense" in result.stderr
    assert "note: 1 instances have a lemma that WordNet lacks, too: no answer" in result.stderr
    results = read_results(files / "wsd.json")
    assert results.kind == "wsd"
    assert results.model is not None and results.model.fingerprint == load(model).fingerprint
    assert [Path(file.path).name for file in results.data] == [
        "semcor.data.xml",
        "semcor.gold.key.txt",
        "semeval2007.data.xml",
        "semeval2007.gold.key.txt",
        "senseval2.data.xml",
        "senseval2.gold.key.txt",
        "index.sense",
    ]
    scores = json.loads((files / "wsd.json").read_text())["numbers"]["scores"]
    assert scores["first sense"]["test"]["ALL"] == {
        "f1": pytest.approx(400 / 9),
        "precision": 50.0,
        "recall": 40.0,
        "instances": 5,
    }


def test_one_data_set_and_keys_by_name(files: Path, model: Path) -> None:
    for path in (files / "semcor.gold.key.txt", files / "sets" / "senseval2.gold.key.txt"):
        path.rename(path.with_suffix(".keys"))
    keys = ["--train-key", files / "semcor.gold.key.keys", "--eval-key", files / "sets" / "senseval2.gold.key.keys"]
    test = ["--eval", files / "sets" / "senseval2.data.xml", "--model", model, "--layers", "1"]
    result = wsd(files, *test, *keys)
    assert result.exit_code == 0, result.output
    assert "parts of speech: of senseval2" in result.stdout
    assert "layer 1" in result.stdout and "layer 2" not in result.stdout and "ALL" not in result.stdout
    assert "expected 1, one for each data set" in wsd(files, *test, *keys, "--eval-key", "x").stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layers", "7"], "--layers: expected all, or some of 0 to 2"),
        (["--wordnet", "nowhere"], "nowhere: expected WordNet, found nothing there; name a folder or tar file with"),
        (["-o", "nowhere/x.json"], "expected a file in a folder that exists"),
        (["--train", "nowhere.data.xml"], "expected a file of sense-annotated text, found nothing there"),
        (["--train-key", "nowhere.txt"], "nowhere.txt: expected a readable text file"),
    ],
)
def test_faults_are_one_line(files: Path, model: Path, options: list[str], message: str) -> None:
    result = wsd(files, "--eval", files / "sets", "--model", model, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith("elmo: ") and result.stderr.count("\n") == 1
    assert message in result.stderr


def test_another_version_of_wordnet_is_noticed(files: Path, model: Path) -> None:
    index = files / "wordnet" / "index.sense"
    index.write_text(index.read_text().replace("bank%1:17:01", "bank%1:17:77").replace("bank%1:14:00", "bank%1:14:77"))
    result = wsd(files, "--eval", files / "sets", "--model", model)
    assert "note: 4 instances have no gold sense that this WordNet has; the published data sets" in result.stderr


def test_first_sense_on_the_real_sets(shared_data: Path) -> None:
    """As the framework (Raganato et al. 2017) has it for every set, and the paper (65.9) for the test sets together."""
    folder = shared_data / "wsd"
    wordnet = read_wordnet(folder / "wordnet-3.0")
    published = {"senseval2": 66.8, "senseval3": 66.2, "semeval2007": 55.2, "semeval2013": 63.0, "semeval2015": 67.8}
    everything: list[Instance] = []
    for name, f1 in published.items():
        instances = read_corpus(folder / "eval" / f"{name}.data.xml").instances
        made = score(instances, [wordnet.first(instance.lemma, instance.pos) for instance in instances])
        assert made.f1 == pytest.approx(f1, abs=0.06)
        everything += instances if name != "semeval2007" else []
    made = score(everything, [wordnet.first(instance.lemma, instance.pos) for instance in everything])
    assert made.f1 == pytest.approx(65.9, abs=0.06)
