"""`elmo task` and `elmo cache` from the outside."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import entity_files
import models
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

import elmokit
from elmokit import weights
from elmokit.analysis.shared.results import read_results
from elmokit.cli import app
from elmokit.errors import FormatError, InputError
from elmokit.tasks.ner import Ner
from elmokit.tasks.runs.task_model import TaskModel

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(elmokit.__file__).parents[1].resolve()), "OMP_NUM_THREADS": "1"}
SMALL = ["--hidden", "16", "--layers", "1", "--character-filters", "8", "--word-dim", "12", "--batch-size", "8"]
QUICK = ["--learning-rate", "0.02", "--dropout", "0.1", "--patience", "60", "--threads", "1"]
FILES = ["--train", "train.txt", "--dev", "dev.txt", "--test", "test.txt"]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three files, and a random biLM that stands in for a trained one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, n, seed in (("train.txt", 20, 0), ("dev.txt", 8, 1), ("test.txt", 8, 2)):
        entity_files.write(tmp_path / name, n, seed=seed)
    models.write_variant(tmp_path / "bilm", "usual")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run with ELMo at both places, to be copied."""
    folder = tmp_path_factory.mktemp("trained")
    for name, n, seed in (("train.txt", 20, 0), ("dev.txt", 8, 1), ("test.txt", 8, 2)):
        entity_files.write(folder / name, n, seed=seed)
    models.write_variant(folder / "bilm", "usual")
    before = Path.cwd()
    os.chdir(folder)
    try:
        options = ["--model", "bilm", "--elmo-at", "both", "--cache-dir", "cache"]
        run = elmo("task", "ner", "train", *FILES, "-o", "run", "--epochs", "8", *SMALL, *QUICK, *options)
    finally:
        os.chdir(before)
    assert run.exit_code == 0, run.output
    return folder


def elmo(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=text)


def works(*arguments: str, text: str | None = None) -> Result:
    result = elmo(*arguments, text=text)
    assert result.exit_code == 0, result.output
    return result


def fails(*arguments: str) -> str:
    """The one line that a command leaves on standard error when it cannot do its work."""
    result = elmo(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("elmo: ") and result.stderr.count("\n") == 1
    return result.stderr


def train(*arguments: str, files: list[str] = FILES) -> Result:
    return works("task", "ner", "train", *files, *SMALL, *QUICK, *arguments)


def results(folder: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "results.json").read_text())
    return found


# ---- training


@pytest.mark.parametrize("options", [["--no-elmo"], ["--model", "bilm"]], ids=["baseline", "ELMo"])
def test_twenty_examples_are_learned_by_heart(options: list[str]) -> None:
    same = ["--train", "train.txt", "--dev", "train.txt", "--test", "train.txt"]
    result = train("-o", "run", "--epochs", "30", *options, files=same)
    assert results("run")["test"]["f1"] > 95
    assert re.search(r"run: [\d.]+ M parameters, 20 examples to train on, 20 for dev, 20 for test", result.stderr)
    assert re.search(r"epoch 1: loss [\d.]+, dev f1 [\d.]+, the best \(precision", result.stderr)
    evaluate = ["task", "ner", "evaluate", "run", "train.txt", "--json", "--threads", "1", "-o", "scores.json"]
    scores = json.loads(works(*evaluate).stdout)
    written = read_results("scores.json")
    assert written.numbers == {"task": "ner", "scores": scores} and written.data[0].path == "train.txt"
    assert scores == results("run")["test"]
    text = "Grace Hopper met Ada Lovelace in Basel .\n\n"
    found = [json.loads(line) for line in works("task", "ner", "predict", "run", text=text).stdout.splitlines()]
    assert len(found) == 1 and [e["text"] for e in found[0]["entities"]] == ["Grace Hopper", "Ada Lovelace", "Basel"]


def test_the_text_of_labeled_data_can_be_fine_tuned_on() -> None:
    lines = works("task", "ner", "text", "train.txt", "dev.txt").stdout.splitlines()
    sentences = [" ".join(sentence.tokens) for file in ("train.txt", "dev.txt") for sentence in Ner().read(Path(file))]
    assert lines == list(dict.fromkeys(sentences))
    assert "absent: expected a readable text file" in fails("task", "ner", "text", "absent")


def test_a_run_says_all_that_made_it(trained: Path) -> None:
    record = json.loads((trained / "run" / "settings.json").read_text())
    assert record["task"] == "ner" and record["versions"]["torch"] == torch.__version__
    assert record["examples"] == {"train": 20, "dev": 8, "test": 8}
    assert record["model"]["fingerprint"] == weights.load(trained / "bilm").fingerprint
    assert Path(record["model"]["path"]) == trained / "bilm" and record["settings"]["hidden"] == 16
    digest = hashlib.sha256((trained / "train.txt").read_bytes()).hexdigest()
    assert record["data"]["train"] == [{"path": str(trained / "train.txt"), "sha256": digest}]
    found = results(trained / "run")
    assert found["mix"].keys() == {"input", "output"} and sum(found["mix"]["input"]["weights"]) == pytest.approx(1)
    assert found["seconds"] >= found["seconds_to_best"] > 0 and 1 <= found["best_epoch"] <= found["epochs"] == 8
    lines = [json.loads(line) for line in (trained / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines if line["kind"] == "epoch"] == list(range(1, 9))
    names = {path.name for path in (trained / "run").iterdir()} - {"tensorboard"}
    assert names == {
        "settings.json",
        "labels.json",
        "words.json",
        "weights.safetensors",
        "results.json",
        "metrics.jsonl",
    }
    assert not any("bilm" in name for name in load_file(trained / "run" / "weights.safetensors"))


def test_the_same_seed_the_same_weights_and_layers_are_computed_once() -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        train("-o", name, "--epochs", "2", "--model", "bilm", "--seed", seed, "--quiet")
    a, b, c = (Path(name, "weights.safetensors").read_bytes() for name in "abc")
    assert a == b != c
    [entry] = [json.loads(line) for line in works("cache", "list", "--json").stdout.splitlines()]
    assert entry["state"] == "warm" and len(list(Path("cache").rglob("*.npy"))) == 1


def test_words_vectors_and_several_training_files() -> None:
    Path("glove.txt").write_text("met 1 2 3\nbasel 3 2 1\nunseen 0 0 1\n")
    files = ["--train", "train.txt", "--train", "dev.txt", "--dev", "dev.txt"]
    train("-o", "run", "--epochs", "1", "--no-elmo", "--vectors", "glove.txt", "--train-vectors", files=files)
    record = json.loads(Path("run/settings.json").read_text())
    assert record["examples"] == {"train": 28, "dev": 8, "test": 0} and record["vectors"]["path"].endswith("glove.txt")
    assert results("run")["test"] is None
    Path("glove.txt").unlink()  # the run has what it needs
    model = TaskModel.from_pretrained("run")
    table = model.network.inputs.words
    assert table is not None and table.fixed.tolist() == [[0, 0, 1]] and model.words.row("unseen") > 0
    assert model.evaluate("dev.txt") == results("run")["dev"]


def test_without_dev_data_some_is_held_out() -> None:
    train("-o", "run", "--epochs", "1", "--no-elmo", "--hold-out", "0.25", files=["--train", "train.txt"])
    assert json.loads(Path("run/settings.json").read_text())["examples"] == {"train": 15, "dev": 5, "test": 0}


def test_a_bilm_that_is_trained_too_is_kept_with_the_run() -> None:
    train("-o", "run", "--epochs", "2", "--model", "bilm", "--finetune-bilm", "--bilm-learning-rate", "0.01", "--quiet")
    assert weights.load("run/bilm").fingerprint != weights.load("bilm").fingerprint
    shutil.rmtree("bilm")
    model = TaskModel.from_pretrained("run")
    assert model.evaluate("dev.txt") == results("run")["dev"]
    assert not Path("cache").exists()


def test_on_a_device(trained: Path) -> None:
    train("-o", "run", "--epochs", "1", "--model", "bilm", "--device", "cpu", "--quiet")
    assert json.loads(Path("run/settings.json").read_text())["machine"].endswith("1 thread(s), cpu")
    evaluate = ["task", "ner", "evaluate", str(trained / "run"), str(trained / "test.txt"), "--json", "--threads", "1"]
    assert json.loads(works(*evaluate, "--device", "cpu").stdout) == results(trained / "run")["test"]
    works("task", "ner", "predict", str(trained / "run"), "--device", "cpu", text="Basel is far .\n")
    for name in ("abacus", "meta", *(() if torch.cuda.is_available() else ("cuda",))):
        message = (
            f"elmo: --device: expected {'a GPU for' if name == 'cuda' else 'cpu, cuda, cuda:1 or mps, found'} '{name}'"
        )
        begin = ["task", "ner", "train", *FILES, "-o", "other", "--no-elmo"]
        for command in (begin, evaluate, ["task", "ner", "predict", str(trained / "run")]):
            assert fails(*command, "--device", name).startswith(message)
    assert not list(Path("other").glob("*.json"))


# ---- interruption


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "elmokit", "task", "ner", "train", *FILES, *SMALL, *QUICK, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def test_a_run_that_was_ended_goes_on_to_the_same_weights() -> None:
    options = ["--no-elmo", "--epochs", "12"]
    train("-o", "whole", *options)
    processes = {number: start("-o", str(int(number)), *options) for number in (signal.SIGTERM, signal.SIGKILL)}
    for number, process in processes.items():
        run = Path(str(int(number)))
        while process.poll() is None and not list(run.glob("checkpoints/step-*")):
            time.sleep(0.01)
        process.send_signal(number)
        _, stderr = process.communicate()
        assert process.returncode in (0, 143 if number == signal.SIGTERM else -9)  # 0: it was faster
        if process.returncode == 143:
            assert re.search(r"elmo: stopped in epoch \d+; continue with --resume\n", stderr)
        works("task", "ner", "train", "-o", str(run), "--resume", "--threads", "1")
        assert (run / "weights.safetensors").read_bytes() == Path("whole/weights.safetensors").read_bytes()
        assert not (run / "checkpoints").exists()
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines if line["kind"] == "epoch"] == list(range(1, 13))


def test_resuming_what_is_complete_or_was_never_begun() -> None:
    train("-o", "run", "--epochs", "1", "--no-elmo", "--resume")  # begins
    again = works("task", "ner", "train", "-o", "run", "--resume")
    assert re.search(r"run: was complete already: dev f1 [\d.]+ in epoch 1, test f1", again.stderr)


def test_a_resumption_with_other_things_names_them(trained: Path) -> None:
    run = shutil.copytree(trained / "run", Path("run"))
    (run / "results.json").unlink()
    command = ["task", "ner", "train", "-o", "run", "--resume"]
    assert "--hidden 16 in the run, 17 now; leave it out" in fails(*command, "--hidden", "17")
    assert "--dev is another file, or has changed" in fails(*command, "--dev", "test.txt")


# ---- what cannot work


def test_folders_that_are_no_runs_or_of_another_task(trained: Path) -> None:
    Path("other").mkdir()
    Path("other/file").touch()
    run = str(trained / "run")
    assert "other: expected the folder of a run" in fails("task", "ner", "evaluate", "other", "dev.txt")
    assert "found nothing there" in fails("task", "ner", "predict", "absent")
    assert "expected a run of the task sst, found one of ner" in fails("task", "sst", "evaluate", run, "dev.txt")
    assert "found other files" in fails("task", "ner", "train", *FILES, "-o", "other")
    assert "already contains a run" in fails("task", "ner", "train", *FILES, "-o", run)
    assert "expected a run of the task sst" in fails("task", "sst", "train", *FILES, "-o", run, "--overwrite")


def test_an_old_run_is_replaced_if_asked(trained: Path) -> None:
    shutil.copytree(trained / "run", "run")
    before = sorted(path.name for path in Path("run").iterdir())
    for wrong in (["--dropout", "2"], ["--model", "absent"], ["--no-elmo", "--device", "abacus"]):
        fails("task", "ner", "train", *FILES, "-o", "run", "--overwrite", *wrong)
    fails("task", "ner", "train", "--train", "absent.txt", "-o", "run", "--overwrite")
    assert "--cache-limit: expected room" in fails(
        "task", "ner", "train", *FILES, "-o", "run", "--overwrite", "--cache-limit", "0", "--cache-dir", "empty"
    )
    assert sorted(path.name for path in Path("run").iterdir() if path.suffix != ".lock") == before  # still there
    train("-o", "run", "--epochs", "1", "--no-elmo", "--overwrite")
    assert results("run")["mix"] == {}


def test_data_that_cannot_be_used() -> None:
    Path("empty.txt").touch()
    Path("bad.txt").write_text("a O\nb X-PER\n")
    begin = ["task", "ner", "train", "-o", "run"]
    assert "--train: expected a file of training data, found none" in fails(*begin)
    assert "expected examples of the task ner in" in fails(*begin, "--train", "empty.txt", "--dev", "dev.txt")
    assert "bad.txt: line 2: expected a tag" in fails(*begin, "--train", "train.txt", "--dev", "bad.txt")
    assert "No such file" in fails(*begin, "--train", "absent.txt", "--dev", "dev.txt")
    assert "--dev: expected a file, or enough training data" in fails(
        *begin, "--train", "dev.txt", "--no-elmo", "--hold-out", "0.01"
    )
    assert "No such file" in fails(*begin, *FILES, "--no-elmo", "--vectors", "absent.txt")
    assert "found nothing there" in fails(*begin, *FILES, "--model", "absent")
    assert "--no-elmo: expected word vectors" in fails(
        *begin, *FILES, "--no-elmo", "--word-dim", "0", "--character-filters", "0"
    )
    assert "--dropout: expected less than 1" in fails(*begin, *FILES, "--dropout", "1")
    assert "--cache-limit: expected room" in fails(*begin, *FILES, "--model", "bilm", "--cache-limit", "0.000001")
    assert not Path("run").exists() or not any(Path("run").glob("*.safetensors"))


def test_labels_never_seen_in_training_are_told() -> None:
    Path("dev.txt").write_text("Rex I-DOG\nran O\n\nEuler I-PER\nran O\n")
    result = train("-o", "run", "--epochs", "1", "--no-elmo")
    message = "types never seen in training: DOG; the network cannot predict them, but they count in the score"
    assert f"elmo: warning: dev data: {message}" in result.stderr
    result = works("task", "ner", "evaluate", "run", "dev.txt", "--threads", "1")
    assert f"elmo: warning: dev.txt: {message}" in result.stderr and re.search(r"^f1 DOG +0\.00$", result.stdout, re.M)


def test_another_bilm_is_refused_and_a_moved_one_found(trained: Path) -> None:
    folder = Path("moved")
    shutil.copytree(trained, folder)
    record = json.loads((folder / "run/settings.json").read_text())
    record["model"]["path"] = str(folder.absolute() / "gone")
    (folder / "run/settings.json").write_text(json.dumps(record))
    assert "gone: expected a model file or folder" in fails("task", "ner", "evaluate", "moved/run", "dev.txt")
    models.write_variant(folder / "other", "usual", seed=5)
    wrong = fails("task", "ner", "evaluate", "moved/run", "dev.txt", "--model", "moved/other")
    assert "expected the biLM that the run was made with" in wrong and "--model" in wrong
    command = ["task", "ner", "evaluate", "moved/run", str(trained / "test.txt"), "--model", "moved/bilm"]
    assert json.loads(works(*command, "--json", "--threads", "1").stdout) == results(trained / "run")["test"]


def test_a_damaged_run_is_told(trained: Path) -> None:
    run = shutil.copytree(trained / "run", Path("run"))
    for name, content, message in (
        ("weights.safetensors", b"text", "damaged"),
        ("words.json", b"{", "words.json: expected JSON"),
        ("settings.json", b"[]", "expected the settings of a run"),
    ):
        kept = (run / name).read_bytes()
        (run / name).write_bytes(content)
        assert message in fails("task", "ner", "evaluate", "run", "dev.txt")
        (run / name).write_bytes(kept)
    (run / "weights.safetensors").unlink()
    assert "the run is not complete: continue it with --resume" in fails("task", "ner", "predict", "run")


# ---- Python


def test_the_model_in_python(trained: Path) -> None:
    model = elmokit.TaskModel.from_pretrained(trained / "run")
    assert model.evaluate(trained / "test.txt") == results(trained / "run")["test"]
    texts = ["Euler lives in Basel", "", "nobody was there"]
    found = model.predict(texts)
    assert [item["tokens"] for item in found] == [texts[0].split(), texts[2].split()]
    with pytest.raises(InputError, match=r"use \[text\]"):
        model.predict("text")
    with pytest.raises(FormatError, match="found another"):
        TaskModel.from_pretrained(trained / "run", model=str(models.write_variant(Path("other"), "usual", seed=9)[0]))


def test_predictions_do_not_depend_on_their_company(trained: Path) -> None:
    model = TaskModel.from_pretrained(trained / "run")
    texts = ["Euler lives in Basel", "Ada Lovelace met Mary Anning in Lyme Regis .", "Basel"]
    together = model.predict(texts)
    for text, found in zip(texts, together, strict=True):
        [alone] = model.predict([text])
        assert [e["text"] for e in alone["entities"]] == [e["text"] for e in found["entities"]]


# ---- compare


def fake_run(
    name: str,
    *,
    elmo: bool,
    seed: int,
    dev: float,
    test: float | None,
    task: str = "ner",
    sha256: str = "0",
    hidden: int = 3,
) -> None:
    """As much of a run as compare reads."""
    folder = Path("runs", name)
    folder.mkdir(parents=True)
    settings = {"elmo": elmo, "seed": seed, "model": None, "vectors": f"/home/{seed}", "hidden": hidden}
    file = {"path": f"/{seed}", "sha256": sha256}
    model = {"path": None, "fingerprint": "f", "state": "reset"} if elmo else None
    record = {
        "task": task,
        "settings": settings,
        "data": {"train": [file], "dev": file, "test": file},
        "vectors": file,
        "model": model,
    }
    mix = {"input": {"weights": [0.2, 0.5, 0.3 + seed / 10], "gamma": 1.5}} if elmo else {}
    found = {
        "metric": "f1",
        "dev": {"f1": dev},
        "test": None if test is None else {"f1": test},
        "best_epoch": 3,
        "seconds_to_best": 10.0,
        "mix": mix,
    }
    (folder / "settings.json").write_text(json.dumps(record))
    (folder / "results.json").write_text(json.dumps(found))


def test_compare_by_hand() -> None:
    for seed, (base, more) in enumerate(((80.0, 85.0), (82.0, 89.0))):
        fake_run(f"plus-{seed}", elmo=True, seed=seed, dev=90 + seed, test=more)
        fake_run(f"base-{seed}", elmo=False, seed=seed, dev=70 + seed, test=base)
    found = json.loads(works("task", "compare", "runs", "--json").stdout)
    base, plus = found["groups"]
    assert (found["task"], found["metric"], found["baseline"]) == ("ner", "f1", 0)
    assert base["test"] == [80, 82] and plus["test"] == [85, 89] and plus["dev"] == [90, 91]
    assert plus["gain"] == 6 and plus["error_reduction"] == pytest.approx(100 * 6 / 19)
    assert plus["mix"]["input"] == {"weights": pytest.approx([0.2, 0.5, 0.35]), "gamma": 1.5}
    table = works("task", "compare", "runs/plus-0", "runs/plus-1", "runs/base-0", "runs/base-1").stdout
    assert re.search(r"runs/plus-0 and 1 more \(\+ELMo\) +90\.50 ± 0\.71 +87\.00 ± 2\.83 +\+6\.00 +31\.6%", table)
    assert re.search(r"runs/base-0 and 1 more \(no ELMo\) +70\.50 ± 0\.71 +81\.00 ± 1\.41 +3 +10", table)
    assert "input 0.20 0.50 0.35 (gamma 1.50)" in table
    works("task", "compare", "runs", "-o", "compare.json")
    results = read_results("compare.json")
    assert results.kind == "task-compare" and results.seeds == (0, 1) and results.versions and results.machine
    assert results.numbers["groups"] == found["groups"] and results.model is not None
    assert "compare.json: exists" in fails("task", "compare", "runs", "-o", "compare.json")


def test_compare_refuses_what_cannot_be_compared(trained: Path) -> None:
    fake_run("a", elmo=False, seed=0, dev=1, test=2)
    fake_run("b", elmo=False, seed=0, dev=1, test=2, task="sst")
    assert "expected runs of one task, found ner and sst" in fails("task", "compare", "runs")
    fake_run("other data", elmo=True, seed=0, dev=1, test=2, sha256="1")
    found = fails("task", "compare", "runs/a", "runs/other data")
    assert "runs/other data: expected scores on the same data as those of runs/a, found others" in found
    fake_run("c", elmo=True, seed=0, dev=1, test=None)
    found = works("task", "compare", "--json", "runs/a", "runs/c")
    assert "runs/c: has no test scores, so that dev scores are compared" in found.stderr
    assert [group["test"] for group in json.loads(found.stdout)["groups"]] == [[], []]
    fake_run("d", elmo=True, seed=1, dev=1, test=3)
    found = works("task", "compare", "--json", "runs/a", "runs/c", "runs/d")
    assert "runs/c: has no test scores, and is left out" in found.stderr
    assert [group["gain"] for group in json.loads(found.stdout)["groups"]] == [0, 1]
    Path("runs/c/results.json").unlink()
    assert "the run is not complete" in fails("task", "compare", "runs/a", "runs/c")
    Path("some").mkdir()
    for name in "ac":
        Path("runs", name).rename(Path("some", name))
    found = works("task", "compare", "some")
    assert (
        "elmo: warning: some/c: skipped, because the run is not complete" in found.stderr and "some/a" in found.stdout
    )
    assert "found nothing there" in fails("task", "compare", "absent")


def test_lists_of_tokens_are_sentences(trained: Path) -> None:
    from elmokit import TaskModel
    from elmokit.errors import InputError

    model = TaskModel.from_pretrained(trained / "run", device="cpu")
    tokens = ["Basel", "is", "far", "."]
    (of_tokens,), (of_text,) = model.predict([tokens]), model.predict([" ".join(tokens)])
    assert of_tokens["tokens"] == of_text["tokens"] == tokens
    assert [e["label"] for e in of_tokens["entities"]] == [e["label"] for e in of_text["entities"]]
    with pytest.raises(InputError, match="expected texts or lists of tokens, found '3' among them"):
        model.predict([["a", 3]])
    with pytest.raises(InputError, match="expected a list of texts or of lists of tokens, found None"):
        model.predict(None)  # type: ignore[arg-type]
    assert repr(model) == "TaskModel(ner, ELMo, cpu)"


def test_a_score_of_zero_is_warned_of(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.tasks.ner.span_scores", lambda *spans: {"precision": 0.0, "recall": 0.0, "f1": 0.0})
    warning = train("-o", "zero", "--epochs", "1").stderr
    assert "dev f1 is 0 after" in warning and "another learning rate" in warning


def test_compare_takes_no_broken_run_as_its_baseline(trained: Path) -> None:
    fake_run("broken", elmo=False, seed=0, dev=0, test=0)
    fake_run("elmo", elmo=True, seed=0, dev=50, test=60)
    found = works("task", "compare", "--json", "runs")
    assert "runs/broken: scores 0, has learned nothing, and is not used as the baseline" in found.stderr
    facts = json.loads(found.stdout)
    assert facts["groups"][facts["baseline"]]["runs"] == ["runs/elmo"]


def test_the_baseline_has_the_best_dev_score(trained: Path) -> None:
    fake_run("a", elmo=False, seed=0, dev=40, test=59, hidden=4)
    fake_run("b", elmo=False, seed=0, dev=45, test=50)
    fake_run("elmo", elmo=True, seed=0, dev=50, test=60)
    facts = json.loads(works("task", "compare", "--json", "runs").stdout)
    assert facts["groups"][facts["baseline"]]["runs"] == ["runs/b"]


def test_compare_leaves_out_a_seed_that_learned_nothing(trained: Path) -> None:
    for seed, score in enumerate((40, 0)):
        fake_run(f"base-{seed}", elmo=False, seed=seed, dev=score, test=score)
    fake_run("elmo", elmo=True, seed=0, dev=50, test=60)
    found = works("task", "compare", "--json", "runs")
    assert "runs/base-1: scores 0, has learned nothing, and is left out" in found.stderr
    facts = json.loads(found.stdout)
    assert [group["gain"] for group in facts["groups"]] == [0, 20]


def test_compare_real_runs(trained: Path) -> None:
    train("-o", "base", "--epochs", "1", "--no-elmo")
    table = works("task", "compare", "base", str(trained / "run")).stdout
    assert "gain" in table and "output" in table


# ---- cache


def test_cache_commands(trained: Path) -> None:
    shutil.copytree(trained / "cache", "layers")
    fingerprint = weights.load(trained / "bilm").fingerprint
    listed = works("cache", "list", "--cache-dir", "layers").stdout
    assert re.search(rf"{fingerprint[:12]}  warm +\d+ sentences +\d+ tokens +0\.00 GB  last used \d{{4}}-", listed)
    assert "begins with '0000', found none" in fails("cache", "clear", "0000", "--cache-dir", "layers")
    assert list(Path("layers").rglob("*.npy"))
    assert "GB deleted" in works("cache", "clear", "--cache-dir", "layers").stdout
    assert not list(Path("layers").rglob("*.npy"))


# ---- help


def test_help_names_every_task_and_setting() -> None:
    assert all(
        f"  {name} " in works("task", "--help").stdout for name in ("ner", "sst", "snli", "squad", "srl", "coref")
    )
    assert "train" in works("task", "ner", "--help").stdout
    shown = " ".join(works("task", "ner", "train", "--help").stdout.split())
    for flag in ("--elmo / --no-elmo", "--hidden", "--elmo-at", "--mix-l2", "--vectors", "--seed", "--resume"):
        assert flag in shown
    assert "Hidden units of the LSTM per direction. [200]" in shown


def test_help_of_the_group_does_not_wait_for_torch() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from elmokit.cli import app; "
        "r = CliRunner().invoke(app, ['task', '--help']); print(r.exit_code, 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert result.stdout.strip() == "0 False"
