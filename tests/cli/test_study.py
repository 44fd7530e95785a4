"""`elmo ablate`, `elmo sample-efficiency` and `elmo task weights` from the outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import entity_files
import models
import pytest
from run_folders import write_run
from typer.testing import CliRunner, Result

import elmokit
from elmokit import weights
from elmokit.analysis.shared.results import read_results
from elmokit.cli import app, task_progress

FILES = ["--train", "train.txt", "--dev", "dev.txt", "--test", "test.txt"]
SMALL = ["--hidden", "6", "--layers", "1", "--character-filters", "0", "--word-dim", "6", "--batch-size", "8"]
QUICK = ["--learning-rate", "0.02", "--epochs", "2", "--model", "bilm", "--threads", "1"]
ABLATE = ["ablate", "ner", *FILES, *SMALL, *QUICK]
LESS = ["sample-efficiency", "ner", *FILES, *SMALL, *QUICK]
VARIANTS = ["baseline", "top-input", "all-1-input", "all-0.001-input", "all-0.001-both", "all-0.001-output"]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_data(tmp_path)


def write_data(folder: Path) -> None:
    for name, n, seed in (("train.txt", 20, 0), ("dev.txt", 8, 1), ("test.txt", 8, 2)):
        entity_files.write(folder / name, n, seed=seed)
    models.write_variant(folder / "bilm", "usual")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A whole ablation, never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    write_data(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        return folder / "study", works(*ABLATE, "-o", "study", "--cache-dir", "cache")
    finally:
        os.chdir(before)


def elmo(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def works(*arguments: str) -> Result:
    result = elmo(*arguments)
    assert result.exit_code == 0, result.output
    return result


def fails(*arguments: str) -> str:
    """The one line that a command leaves on standard error when it cannot do its work."""
    result = elmo(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("elmo: ") and result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def read(path: Path) -> Any:
    return json.loads(path.read_text())


# ---- ablate


def test_every_variant_is_an_ordinary_run_made_once(study: tuple[Path, Result]) -> None:
    folder, result = study
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == sorted(f"{name}-0" for name in VARIANTS)
    assert [line for line in result.stderr.splitlines() if line.startswith("run ")] == [
        f"run {k} of 6: {name}-0" for k, name in enumerate(VARIANTS, start=1)
    ]
    settings = {name: read(folder / f"{name}-0" / "settings.json")["settings"] for name in VARIANTS}
    chosen = {name: [one["elmo"], one["mix"], one["mix_l2"], one["elmo_at"]] for name, one in settings.items()}
    assert chosen == {
        "baseline": [False, "all", 0.1, "input"],
        "top-input": [True, "top", 0.0, "input"],
        "all-1-input": [True, "all", 1.0, "input"],
        "all-0.001-input": [True, "all", 0.001, "input"],
        "all-0.001-both": [True, "all", 0.001, "both"],
        "all-0.001-output": [True, "all", 0.001, "output"],
    }
    assert all(one["hidden"] == 6 and one["epochs"] == 2 for one in settings.values())
    assert read(folder / "top-input-0" / "results.json")["mix"]["input"]["weights"] == [0, 0, 1]
    assert len(list((folder.parent / "cache").rglob("*.npy"))) == 1  # layers of each sentence once


def test_the_table_and_the_results_are_those_of_the_runs(
    study: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, shown = study
    monkeypatch.setenv("COLUMNS", "400")  # names of runs are paths, which may be long
    results = read_results(folder / "results.json")
    assert (results.kind, results.numbers["task"], results.numbers["seeds"]) == ("ablate", "ner", [0])
    assert results.model is not None and results.model.fingerprint == weights.load(folder.parent / "bilm").fingerprint
    assert [Path(file.path).name for file in results.data] == ["train.txt", "dev.txt", "test.txt"]
    scores = {name: read(folder / f"{name}-0" / "results.json") for name in VARIANTS}
    rows = [row for table in results.numbers["tables"].values() for row in table]
    assert [row["runs"] for row in rows] == [*VARIANTS[:4], "all-0.001-input", "all-0.001-both", "all-0.001-output"]
    for row in rows:
        found = scores[row["runs"]]
        assert row["dev"] == [found["dev"]["f1"]] and row["test"] == [found["test"]["f1"]]
        if row["runs"] != "baseline":
            assert row["gain"] == pytest.approx(found["test"]["f1"] - scores["baseline"]["test"]["f1"])
    assert f"  top layer  {scores['top-input']['dev']['f1']:.2f}".split() in [
        line.split()[:3] for line in shown.stdout.splitlines()
    ]
    assert "which layers, at the input (Table 2)" in shown.stdout and "(Table 3)" in shown.stdout
    assert "top-input-0 (+ELMo)" in works("task", "compare", str(folder)).stdout


class _Countdown(list[int]):
    """Signals, of which one comes after so many looks."""

    looks = 0

    def __bool__(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def test_an_interrupted_study_goes_on_to_the_same_end(
    study: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = study
    caught = _Countdown([signal.SIGINT])
    caught.looks = 10  # a run has six steps: in the second

    @contextmanager
    def signals() -> Iterator[_Countdown]:
        yield caught

    with monkeypatch.context() as patched:
        patched.setattr(task_progress, "signals", signals)
        stopped = elmo(*ABLATE, "-o", "study")
    assert stopped.exit_code == 130 and stopped.stderr.endswith("stopped in epoch 2; continue with the same command\n")
    assert Path("study/baseline-0/results.json").exists() and not Path("study/results.json").exists()
    assert list(Path("study/top-input-0/checkpoints").iterdir()) and not Path("study/all-1-input-0").exists()
    kept = Path("study/baseline-0/weights.safetensors").stat().st_mtime_ns
    again = works(*ABLATE, "-o", "study")
    assert "study: 1 of 6 runs are complete already" in again.stderr and "run 1 of 6" not in again.stderr
    assert Path("study/baseline-0/weights.safetensors").stat().st_mtime_ns == kept
    for name in VARIANTS:
        ours, theirs = (place / f"{name}-0" / "weights.safetensors" for place in (Path("study"), folder))
        assert ours.read_bytes() == theirs.read_bytes()
    assert read(Path("study/results.json"))["numbers"] == read(folder / "results.json")["numbers"]
    assert not Path("study/lock").exists()


def test_a_run_that_was_killed_before_its_first_checkpoint_is_begun_again(study: tuple[Path, Result]) -> None:
    folder, _ = study
    shutil.copytree(folder, "study")
    for path in Path("study/baseline-0").iterdir():
        if path.name != "settings.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = works(*ABLATE, "-o", "study", "--model", str(folder.parent / "bilm"))
    assert "5 of 6 runs are complete already" in again.stderr
    assert read(Path("study/results.json"))["numbers"] == read(folder / "results.json")["numbers"]


def test_runs_that_were_made_otherwise_are_refused_before_anything_is_trained(study: tuple[Path, Result]) -> None:
    folder, _ = study
    entity_files.write(Path("more.txt"), 21)
    begin = ["ablate", "ner", *SMALL, "-o", str(folder)]
    place = [*FILES, *QUICK[:-4], "--model", str(folder.parent / "bilm"), "--threads", "1"]
    assert "baseline-0: expected a run with the same settings, found --epochs 2 there, 3 now; use the same" in fails(
        *begin, *place, "--epochs", "3"
    )
    other = ["--train", "more.txt", *place[2:]]
    assert "found a different or changed file as --train" in fails(*begin, *other)
    assert "--hidden 6 there, 7 now" in fails(*begin, *place, "--hidden", "7")


def test_folders_that_cannot_take_a_study() -> None:
    write_run(Path("mixed/odd"), task="sst")
    assert "mixed/odd: expected a run of the task ner, found one of sst" in fails(*ABLATE, "-o", "mixed")
    write_run(Path("run"))
    assert "run: expected a folder for many runs, found a run" in fails(*ABLATE, "-o", "run")
    Path("taken").mkdir()
    Path("taken/results.json").write_text("{}")
    assert "taken/results.json: expected a results file of elmokit" in fails(*ABLATE, "-o", "taken")
    assert "cannot be written" in fails(*ABLATE, "-o", "train.txt")
    Path("taken/results.json").unlink()
    Path("taken/baseline-0").touch()
    assert "taken/baseline-0: expected a folder or nothing, found a file" in fails(*ABLATE, "-o", "taken")


def test_flags_that_cannot_work() -> None:
    assert "--train: expected a file of training data, found none" in fails("ablate", "ner", "-o", "x", "--seeds", "0")
    assert "--seeds: expected integers from 0, such as 0,1,2, found '0,x'" in fails(
        *ABLATE, "-o", "x", "--seeds", "0,x"
    )
    assert "--seeds: expected" in fails(*ABLATE, "-o", "x", "--seeds", "-1")
    for wrong in ("0,1", "0.1,2", "a", "", "nan"):
        assert "--fractions: expected numbers above 0 and up to 1" in fails(*LESS, "-o", "x", "--fractions", wrong)
    nothing = fails(*LESS, "-o", "x", "--fractions", "0.01", "--quiet")
    assert "--train-fraction: expected a part of the 20 training examples" in nothing
    assert "No such file" in fails("ablate", "ner", "-o", "x", "--train", "absent.txt")
    for flag in ("--no-elmo", "--mix", "--mix-l2", "--seed"):  # what the study decides itself
        result = elmo(*ABLATE, "-o", "x", flag, "1")
        assert result.exit_code == 2 and "No such option" in result.stderr
    assert elmo("ablate", "chess", "-o", "x").exit_code == 2
    assert not Path("x").exists() or not list(Path("x").rglob("*.safetensors"))


# ---- sample efficiency


def test_less_data_with_two_seeds() -> None:
    command = [*LESS, "-o", "less", "--fractions", "1,0.25", "--seeds", "0,1"]
    shown = works(*command, "--quiet")
    results = read_results("less/results.json")
    assert results.kind == "sample-efficiency" and results.numbers["seeds"] == [0, 1]
    small, whole = results.numbers["points"]
    assert [(p["fraction"], p["examples"]) for p in (small, whole)] == [(0.25, 5), (1.0, 20)]
    for point, name in ((small, "0.25"), (whole, "1")):
        for side in ("baseline", "elmo"):
            runs = [read(Path(f"less/{side}-{name}-{seed}/results.json")) for seed in (0, 1)]
            assert point[side]["test"] == [run["test"]["f1"] for run in runs]
            assert [best["epoch"] for best in point[side]["best"]] == [run["best_epoch"] for run in runs]
        assert point["gain"] == pytest.approx(fmean(point["elmo"]["test"]) - fmean(point["baseline"]["test"]))
        for seed, reached in enumerate(point["reached"]):
            lines = Path(f"less/elmo-{name}-{seed}/metrics.jsonl").read_text().splitlines()
            epochs = [one for one in map(json.loads, lines) if one["kind"] == "epoch"]
            good = [one for one in epochs if one["f1"] >= point["baseline"]["dev"][seed]]
            assert reached == ({"epoch": good[0]["epoch"], "updates": good[0]["step"]} if good else None)
    record = read(Path("less/elmo-0.25-1/settings.json"))
    assert record["settings"]["train_fraction"] == 0.25 and record["examples"] == {"train": 5, "dev": 8, "test": 8}
    assert Path("less/curve.png").read_bytes().startswith(b"\x89PNG")
    assert shown.stdout.split("─ \n")[1].split()[:2] == ["25%", "5"]
    kept = Path("less/results.json").read_bytes()
    again = works(*command)
    assert "less: 8 of 8 runs are complete already" in again.stderr and again.stdout == shown.stdout
    assert Path("less/results.json").read_bytes() == kept
    # two epochs of batches of 8 were given, and hold for all of the data, but not for parts of it
    small_run, whole_run = (read(Path(f"less/elmo-{name}-1/settings.json"))["settings"] for name in ("0.25", "1"))
    assert (small_run["epochs"], small_run["batch_size"], small_run["patience"]) == (200, 4, 800)
    assert (whole_run["epochs"], whole_run["batch_size"], whole_run["patience"]) == (2, 8, 8)
    weights_before = Path("less/elmo-0.25-1/weights.safetensors").read_bytes()
    Path("less/elmo-0.25-1/results.json").unlink()  # as if interrupted
    assert works(*command, "--quiet").stdout == shown.stdout
    assert Path("less/elmo-0.25-1/weights.safetensors").read_bytes() == weights_before
    message = fails(*command, "--batch-size", "4")
    assert "less/baseline-1-0: expected a run with the same settings, found --batch-size 8 there, 4 now" in message


def test_less_data_with_settings_chosen_on_dev() -> None:
    choose = ["--choose", "dropout=0.1,0.5", "--choose", "layer-norm=no"]
    works(*LESS, "-o", "fixed", "--fractions", "1", *choose, "--choose-up-to", "0.5", "-q")
    assert "chosen" not in read_results("fixed/results.json").numbers["points"][0]
    assert Path("fixed/elmo-1-0/results.json").exists()
    works(*LESS, "-o", "less", "--fractions", "1", *choose, "-q")
    (point,) = read_results("less/results.json").numbers["points"]
    for side in ("baseline", "elmo"):
        scores = {
            dropout: read(Path(f"less/{side}-1-dropout={dropout}-layer_norm=False-0/results.json"))["dev"]["f1"]
            for dropout in (0.1, 0.5)
        }
        best = max(scores, key=lambda dropout: scores[dropout])
        assert point["chosen"][side] == {"dropout": best, "layer_norm": False}
        assert point[side]["dev"] == [scores[best]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("dropout", "--choose: expected a setting with numbers or names, such as dropout=0.2,0.5, found 'dropout'"),
        ("vectors=a,b", "--choose: expected a setting with numbers"),
        ("elmo=yes,no", "--choose: expected a setting with numbers"),  # the study varies it
        ("dropout=0.2,much", "--choose dropout: expected a number, found 'much'"),
        ("layers=1.5", "--choose layers: expected an integer, found '1.5'"),
        ("layer-norm=maybe", "--choose layer-norm: expected yes or no, found 'maybe'"),
        ("elmo-at=input,side", "--choose elmo-at: expected input or output or both, found 'side'"),
        ("dropout=0.2,1", "--dropout: expected less than 1"),
        ("epochs=1,2", "--choose epochs: small parts of the data adapt it; choose another setting"),
    ],
)
def test_choices_that_cannot_work(given: str, message: str) -> None:
    assert message in fails(*LESS, "-o", "x", "--choose", given)
    assert not Path("x").exists() or not list(Path("x").rglob("*.safetensors"))


def test_a_setting_is_chosen_once() -> None:
    twice = fails(*LESS, "-o", "x", "--choose", "dropout=0.2", "--choose", "dropout=0.5")
    assert "--choose: expected every setting once, found dropout twice" in twice
    both = fails(*LESS, "-o", "x", "--dropout", "0.1", "--choose", "dropout=0.2")
    assert "--dropout: expected it once, found it under --choose, too; leave one out" in both


def test_a_part_of_the_data_in_an_ordinary_run() -> None:
    works("task", "ner", "train", *FILES, *SMALL, *QUICK, "-o", "run", "--no-elmo", "--train-fraction", "0.5", "-q")
    assert read(Path("run/settings.json"))["examples"]["train"] == 10
    message = fails("task", "ner", "train", "-o", "run", "--resume", "--train-fraction", "0.6")
    assert "--train-fraction 0.5 in the run, 0.6 now" in message


# ---- weights


def test_weights_as_table_picture_and_results() -> None:
    write_run(Path("runs/a"), task="snli", weights=[0.25, 0.5, 0.25])
    write_run(Path("runs/b"), task="srl", weights=[0.1, 0.2, 0.7], place="output")
    shown = works("task", "weights", "runs", "-o", "w.png", "-o", "w.json").stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["snli", "input", "0.25", "0.50", "0.25", "1.50", "1"] in rows
    assert ["srl", "output", "0.10", "0.20", "0.70", "1.50", "1"] in rows
    assert Path("w.png").read_bytes().startswith(b"\x89PNG")
    results = read_results("w.json")
    assert results.kind == "weights" and results.numbers["rows"][1]["weights"] == [0.1, 0.2, 0.7]


def test_weights_that_cannot_be_shown() -> None:
    write_run(Path("base"))
    assert "only these have learned weights" in fails("task", "weights", "base")
    assert "found nothing there" in fails("task", "weights", "absent")
    assert "ends in .png" in fails("task", "weights", "base", "-o", "w.doc")
    assert "folder that exists" in fails("task", "weights", "base", "-o", "no/w.json")


# ---- help


def test_help_lists_the_tasks_without_torch() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from elmokit.cli import app\n"
        "for name in ('ablate', 'sample-efficiency', 'report'):\n"
        "    r = CliRunner().invoke(app, [name, '--help']); assert r.exit_code == 0, r.output\n"
        "    print(name == 'report' or all(f'  {t} ' in r.stdout for t in ('ner', 'snli', 'coref')))\n"
        "print('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(elmokit.__file__).parents[1].resolve())}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.split() == ["True"] * 3 + ["False"]
    shown = " ".join(works("ablate", "ner", "--help").stdout.split())
    assert "--seeds" in shown and "--train-fraction" in shown and "--elmo-at" in shown and "--mix-l2" not in shown
