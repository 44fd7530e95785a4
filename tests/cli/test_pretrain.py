"""`elmo pretrain` and `elmo finetune` from the outside."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import compressed
import pytest
import synthetic
from typer.testing import CliRunner, Result

import elmokit
from elmokit import weights
from elmokit.cli import app, training
from elmokit.pretrain.perplexity import perplexity
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.text.lines import read_lines
from elmokit.training.settings_fields import flag

ENVIRONMENT = {
    **os.environ, "PYTHONPATH": str(Path(elmokit.__file__).parents[1].resolve()), "OMP_NUM_THREADS": "1",
}  # fmt: skip
TINY = ["--preset", "tiny", "--batch-tokens", "60", "--steps", "30", "--heldout-every", "10", "--checkpoint-every", "3"]


@pytest.fixture(autouse=True)
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    synthetic.write(tmp_path / "train.txt", 150)
    synthetic.write(tmp_path / "dev.txt", 20, seed=1)


def elmo(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def pretrain(*arguments: str) -> Result:
    result = elmo("pretrain", "--train", "train.txt", "--heldout", "dev.txt", *TINY, "--threads", "1", *arguments)
    assert result.exit_code == 0, result.output
    return result


def fails(*arguments: str) -> str:
    """The one line that a command leaves on standard error when it cannot do its work."""
    result = elmo("pretrain", *arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("elmo: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "elmokit", "pretrain", "--threads", "1", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def model_files(folder: str) -> dict[str, bytes]:
    names = ("options.json", "weights.safetensors", "softmax.safetensors", "vocabulary.txt")
    return {name: Path(folder, name).read_bytes() for name in names}


def wait_for_step(process: subprocess.Popen[str], step: int, folder: str = "run") -> None:
    def newest() -> int:
        return max((int(path.name[5:14]) for path in Path(folder, "checkpoints").glob("step-*")), default=-1)

    while process.poll() is None and newest() < step:
        time.sleep(0.002)


# ---- what comes out


def test_tiny_beats_a_unigram_model_in_under_a_minute() -> None:
    where = str(synthetic.write(Path("train.txt"), 1000))
    started = time.monotonic()
    result = elmo(
        "pretrain", "--train", where, "--heldout", "dev.txt", "-o", "run", "--preset", "tiny", "--steps", "120"
    )
    assert result.exit_code == 0, result.output
    assert time.monotonic() - started < 60
    found = perplexity(weights.load("run"), read_lines("dev.txt"))
    unigram = synthetic.unigram_perplexity(Path(where), Path("dev.txt"))
    assert max(found.forward, found.backward) < unigram / 2
    assert re.search(r"run: 120 steps, [\d,]+ tokens in .*; held-out perplexity [\d.]+ at step", result.stderr)
    assert re.search(r"step 100: held-out perplexity .* the best\n  .+ \.\.\. \S+, ", result.stderr)


def test_a_run_too_short_to_learn_is_warned_of() -> None:
    result = elmo("pretrain", "--train", "train.txt", "-o", "run", "--preset", "tiny", "--epochs", "0.1", "--quiet")
    assert result.exit_code == 0
    assert re.fullmatch(r"elmo: warning: the run has about \d+ steps, too few to learn from; .*\n", result.stderr)


def test_quiet_says_nothing() -> None:
    result = elmo("pretrain", "--train", "train.txt", "-o", "run", "--preset", "tiny", "--steps", "2", "--quiet")
    assert result.exit_code == 0 and result.output == ""


def test_raw_text_patterns_and_compressed_files(tmp_path: Path) -> None:
    for k in range(3):
        compressed.write(Path(f"part-{k}.txt.xz"), "It's the cat. (Yes!)\nThe dog can't run, either.\n" * 10)
    result = elmo("pretrain", "--train", "part-*.xz", "-o", "run", "--preset", "tiny", "--steps", "2", "--tokenize")
    assert result.exit_code == 0, result.output
    words = Path("run", "vocabulary.txt").read_text().splitlines()
    assert words[:3] == ["<S>", "</S>", "<UNK>"]
    assert {"'s", "n't", "("} <= set(words)
    assert (Path("run") / "weights.safetensors").exists()  # without a held-out text the last weights are the model


def test_a_shape_of_ones_own() -> None:
    options = synthetic.CONFIG.to_options()
    del options["elmokit"]
    Path("options.json").write_text(json.dumps(options))
    pretrain("-o", "run", "--options", "options.json", "--steps", "2")
    model = weights.load("run")
    assert model.config.lstm == synthetic.CONFIG.lstm and model.config.state == "reset"


def test_long_sentences_are_cut_and_counted() -> None:
    lengths = [len(line.split()) for line in Path("train.txt").read_text().splitlines()]
    result = elmo(
        "pretrain", "--train", "train.txt", "-o", "run", "--preset", "tiny", "--epochs", "1", "--max-sentence", "9"
    )
    assert result.exit_code == 0, result.output
    assert f"; {sum(n > 9 for n in lengths)} long sentence(s) cut\n" in result.stderr


# ---- going on


def test_killed_at_any_moment_it_ends_with_the_same_weights() -> None:
    pretrain("-o", "whole")
    arguments = ["--train", "train.txt", "--heldout", "dev.txt", *TINY, "-o", "run", "--resume"]
    rng = random.Random(0)
    for step in (0, 7, 19):
        process = start(*arguments)
        wait_for_step(process, step)
        time.sleep(rng.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = start("-o", "run", "--resume")  # all else is remembered
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert re.search(r"from step [1-9]", errors)
    assert model_files("run") == model_files("whole")


def test_terminated_it_makes_a_checkpoint_first() -> None:
    pretrain("-o", "whole")
    process = start("--train", "train.txt", "--heldout", "dev.txt", *TINY, "--checkpoint-every", "1000", "-o", "run")
    wait_for_step(process, 10)  # the first look at the held-out text, so that signals are heeded
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 143
    found = re.search(r"elmo: stopped after step (\d+); continue with --resume\n$", errors)
    assert found
    assert Path("run", "checkpoints", f"step-{int(found[1]):09d}.safetensors").exists()
    again = start("-o", "run", "--resume")
    again.communicate()
    assert again.returncode == 0
    assert model_files("run") == model_files("whole")


def test_a_signal_passed_on_by_a_launcher_is_still_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with training.signals() as caught:
        for _ in range(2):  # the terminal signals all processes, and torchrun signals its own again
            signal.raise_signal(signal.SIGINT)
    assert caught == [signal.SIGINT]
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    with training.signals() as caught:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)  # of an impatient person
    assert caught == [signal.SIGTERM, signal.SIGINT]


def test_a_later_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_PASSING_ON", 0.0)

    def end(number: int, frame: object) -> None:
        raise InterruptedError

    usual = signal.signal(signal.SIGTERM, end)
    try:
        with training.signals() as caught:
            signal.raise_signal(signal.SIGTERM)
            assert caught == [signal.SIGTERM]
            time.sleep(0.01)
            with pytest.raises(InterruptedError):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, usual)


def test_a_checkpoint_cut_short_is_passed_over() -> None:
    pretrain("-o", "run", "--steps", "5")
    newest = Path("run", "checkpoints", "step-000000005.safetensors")
    os.truncate(newest, newest.stat().st_size // 2)
    result = elmo("pretrain", "-o", "run", "--resume", "--steps", "6")
    assert result.exit_code == 0, result.output
    assert re.search(r"warning: .*step-000000005.* damaged .*; continuing from the previous checkpoint", result.stderr)
    assert "from step 3" in result.stderr


def test_a_resume_with_other_flags_names_them() -> None:
    pretrain("-o", "run", "--steps", "2")
    line = fails("-o", "run", "--resume", "--seed", "4", "--preset", "base", "--train", "dev.txt")
    for part in ("--seed 0 in the run, 4 now", "--preset tiny in the run, base now", "--train ("):
        assert part in line
    result = elmo("pretrain", "-o", "run", "--resume")
    assert result.exit_code == 0 and "was complete already, after step 2" in result.stderr


def test_batches_may_grow_and_no_sentence_is_lost_or_read_twice() -> None:
    def tokens(run: str, *grown: str) -> int:
        pretrain("-o", run, "--steps", "6", "--log-every", "1")
        result = elmo("pretrain", "-o", run, "--resume", "--epochs", "1", *grown)
        assert result.exit_code == 0, result.output
        lines = map(json.loads, Path(run, "metrics.jsonl").read_text().splitlines())
        return max(int(line["tokens"]) for line in lines if line["kind"] == "step")

    assert abs(tokens("grown", "--batch-tokens", "120") - tokens("whole")) <= 120  # but for a part of one batch
    card = Path("grown", "README.md").read_text()
    assert "| changed during the run | from step 6: --epochs 1.0, --batch-tokens 120 |" in card


# ---- what goes wrong


def test_nothing_to_read(tmp_path: Path) -> None:
    assert "--train: expected files of text, found none" in fails("-o", "run")
    assert "--train: expected files of text, found none" in fails("-o", "run", "--resume")
    for missing in ("missing-*.txt", "~no-such-user/train.txt"):
        assert "expected one text file or more" in fails("-o", "run", "--train", missing)
    Path("empty.txt").write_text("\n \n")
    assert "expected words, found none" in fails("-o", "run", "--train", "empty.txt")
    assert "dev2.txt: expected a readable text file" in fails(
        "-o", "run", "--train", "train.txt", "--heldout", "dev2.txt"
    )
    assert not Path("run", "weights.safetensors").exists()


def test_a_vocabulary_without_the_marks() -> None:
    Path("words.txt").write_text("the\ncat\n")
    line = fails("-o", "run", "--train", "train.txt", "--vocabulary", "words.txt")
    assert "expected <S> in the first three lines" in line


def test_a_heldout_text_that_overlaps() -> None:
    Path("dev.txt").write_text("the unheard of\n" + Path("train.txt").read_text().splitlines(keepends=True)[3])
    warning = "dev.txt: 1 of its sentences are also in the training text"
    assert warning in pretrain("-o", "run", "--steps", "2").stderr
    assert warning in elmo("pretrain", "-o", "run", "--resume", "--quiet").stderr


def test_a_run_in_the_way() -> None:
    pretrain("-o", "run", "--steps", "2")
    assert "continue it with --resume, or replace it with --overwrite" in fails("--train", "train.txt", "-o", "run")
    for command in (["pretrain"], ["finetune", "base"]):  # nothing is lost to a slip of the pen
        before = model_files("run")
        result = elmo(*command, "--train", "trian.txt", "-o", "run", "--overwrite")
        assert result.exit_code == 2 and "trian.txt: expected one text file" in result.stderr
        assert model_files("run") == before and Path("run", "checkpoints").exists()
    Path("blank.txt").write_text("\n \n")
    Path("bytes.txt").write_bytes(b"a b\xff\n")
    train, heldout = ["--train", "train.txt"], ["--heldout", "dev.txt"]
    for wrong in (
        [*train, *heldout, "--vocabulary", "absent.txt"],
        [*train, "--heldout", "bytes.txt"],
        ["--train", "blank.txt", *heldout],
        ["--train", "bytes.txt", *heldout],
    ):
        result = elmo("finetune", "base", *wrong, "-o", "run", "--overwrite")
        assert result.exit_code == 2 and result.stderr.splitlines()[-1].startswith("elmo: "), result.output
        assert model_files("run") == before and Path("run", "checkpoints").exists()
    pretrain("-o", "run", "--steps", "2", "--overwrite", "--seed", "1")
    assert model_files("run") != before


def test_two_processes_on_one_folder() -> None:
    process = start("--train", "train.txt", *TINY, "--steps", "100000", "-o", "run", "--quiet")
    wait_for_step(process, 3)
    for flags in (["--resume"], ["--train", "train.txt", "--overwrite"], ["--train", "train.txt"]):
        line = fails("-o", "run", *flags)
        assert line == "elmo: run: another process is writing it; wait for it, or choose another name\n"
    tuned = elmo("finetune", "run", "--train", "train.txt", "-o", "run", "--overwrite")
    assert tuned.exit_code == 2 and "another process is writing it" in tuned.stderr
    process.send_signal(signal.SIGKILL)
    process.communicate()
    newest = max(int(path.name[5:14]) for path in Path("run", "checkpoints").glob("step-*"))
    result = elmo("pretrain", "-o", "run", "--resume", "--steps", str(newest + 1))  # the lock died with its process
    assert result.exit_code == 0, result.output
    assert not Path("run", "lock").exists()


def test_nothing_is_left_of_a_run_that_could_not_begin() -> None:
    Path("words.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    for flags in ((), ("--vocabulary", "words.txt")):
        fails("-o", "run", "--train", "missing.txt", *flags)
        assert not Path("run").exists()


def test_flags_are_checked() -> None:
    assert "--dropout: expected less than 1, found 1.5" in fails("--train", "train.txt", "-o", "r", "--dropout", "1.5")
    assert "--epochs and --steps" in fails("--train", "train.txt", "-o", "r", "--steps", "3", "--epochs", "2")
    assert "device: expected" in fails("--train", "train.txt", "-o", "r", "--device", "abacus")


@pytest.mark.parametrize("command", ["pretrain", "finetune"])
def test_every_setting_is_a_flag(command: str) -> None:
    """Of both commands, but for what a model and a fine-tuning have anyway."""
    shown = elmo(command, "--help").output
    own = {"frozen", "loss_scale"} | ({"preset", "options"} if command == "finetune" else set())
    names = [field.name for field in fields(TrainingSettings) if field.name not in own]
    assert [name for name in names if f"{flag(name)} " not in shown] == []
    for other in ("--tokenize", "--resume", "--overwrite", "--device", "--threads", "--quiet", "--output"):
        assert f"{other} " in shown.replace(",", " ")
    assert "--optimiser" not in shown and "--loss-scale" not in shown  # hidden


def test_help_shows_the_defaults() -> None:
    """Of the command: what differs between presets says that it is of `base`."""
    shown = " ".join(elmo("pretrain", "--help").output.split())
    assert "spaces is for tokenized text. [spaces]" in shown and "Maximum gradient norm. [1.0 in preset base]" in shown
    assert "over all processes. [4096 in preset base]" in shown
    assert "Peak learning rate. [0.0003]" in " ".join(elmo("finetune", "--help").output.split())


def test_former_flags_are_hidden_aliases() -> None:
    pretrain("-o", "run", "--optimiser", "adagrad")
    assert "adagrad" in Path("run/README.md").read_text()


def test_help_shows_an_example() -> None:
    result = elmo("pretrain", "--help")
    assert "elmo pretrain --train 'corpus/*.txt.xz' --heldout dev.txt -o run/" in " ".join(result.output.split())


# ---- fine-tuning


def test_finetune_prints_the_perplexity_before_and_after() -> None:
    pretrain("-o", "run")
    synthetic.write(Path("domain.txt"), 100, seed=5)
    result = elmo(
        "finetune",
        "run",
        "--train",
        "domain.txt",
        "--heldout",
        "dev.txt",
        "-o",
        "domain",
        "--batch-tokens",
        "100",
        "--learning-rate",
        "0.01",
        "--steps",
        "10",
        "--heldout-every",
        "5",
    )
    assert result.exit_code == 0, result.output
    before = re.search(r"^held-out perplexity before: ([\d.]+)$", result.stderr, re.MULTILINE)
    after = re.search(r"^domain: 10 steps, .*; held-out perplexity ([\d.]+) at step", result.stderr, re.MULTILINE)
    assert before and after and float(after[1]) < float(before[1])
    again = elmo("finetune", "run", "-o", "domain", "--resume")
    assert again.exit_code == 0 and "was complete already" in again.stderr


def test_finetune_says_what_is_wrong() -> None:
    result = elmo("finetune", "missing", "--train", "train.txt", "-o", "domain")
    assert result.exit_code == 2 and "missing: expected a model file or folder" in result.stderr
    pretrain("-o", "run", "--steps", "2")
    assert elmo("finetune", "run", "-o", "domain").stderr == "elmo: --train: expected files of text, found none\n"


# ---- an open end


def rates(folder: str) -> dict[int, float]:
    lines = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["learning_rate"] for line in lines if line["kind"] == "step"}


def test_a_branch_decays_while_its_run_stays_as_it_is() -> None:
    pretrain("-o", "run", "--decay", "none", "--warm-up", "0", "--steps", "16", "--log-every", "1")
    before = model_files("run")
    result = elmo("pretrain", "-o", "ended", "--branch", "run", "--decay-now", "0.2", "--threads", "1")
    assert result.exit_code == 0, result.output
    assert model_files("run") == before
    peak, after = rates("run")[16], rates("ended")
    assert list(after) == [17, 18, 19, 20]  # 4 of 20 steps
    assert list(after.values()) == pytest.approx([peak, 0.75 * peak, 0.5 * peak, 0.25 * peak])


def test_a_decay_that_was_interrupted_is_resumed_by_the_same_command() -> None:
    """Started on a checkpoint in the middle of its decay, the command must not move the end of the run."""
    pretrain("-o", "run", "--decay", "none", "--warm-up", "0", "--steps", "16", "--log-every", "1")
    command = ("pretrain", "-o", "run", "--resume", "--decay-now", "0.5", "--threads", "1")
    assert elmo(*command).exit_code == 0
    whole = model_files("run")
    last = sorted(Path("run/checkpoints").glob("step-*"))[-1]
    assert last.name == "step-000000032.safetensors"
    last.unlink()
    result = elmo(*command)
    assert result.exit_code == 0, result.output
    assert sorted(Path("run/checkpoints").glob("step-*"))[-1] == last
    assert model_files("run") == whole


def test_decay_now_needs_a_run() -> None:
    assert "--decay-now: expected --resume or --branch" in fails(
        "-o", "run", "--train", "train.txt", "--decay-now", "0.2"
    )
    assert "check --branch" in fails("-o", "run", "--branch", "nowhere", "--decay-now", "0.2")
    assert not Path("run/checkpoints").exists()
