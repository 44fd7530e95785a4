"""Many processes make the steps of one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic
import torch
from typer.testing import CliRunner

import elmokit
from elmokit import weights
from elmokit.cli import app
from elmokit.errors import ConfigError, ElmoError
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.distributed import Processes, process_group
from elmokit.pretrain.loop import train

VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "sampled, accumulated": {"loss": "sampled", "accumulate": 2},
    "tiers": {"loss": "adaptive"},
    "adagrad": {"loss": "sampled", "optimizer": "adagrad", "learning_rate": 0.2, "loss_scale": 20.0},
    "too small to share": {"batch_tokens": 9},  # often a single sentence: one process has nothing to read
}


def losses(text: str, processes: Processes) -> dict[str, list[list[float]]]:
    """What the steps of each variant are like."""
    result = {}
    for name, changes in VARIANTS.items():
        state = synthetic.state(Path(text), dropout=0.0, steps=5, **changes)
        steps = train(state, Corpus(text), processes=processes)
        result[name] = [[step.loss, step.gradient_norm, step.tokens, step.epoch] for step in steps]
    return result


def torchrun(*arguments: str) -> str:
    paths = (Path(elmokit.__file__).parents[1].resolve(), Path(synthetic.__file__).parent.resolve())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return synthetic.write(tmp_path / "train.txt", 100)


def test_two_processes_have_the_losses_of_one(text: Path) -> None:
    """Also after one of them was killed, and torchrun has started both again."""
    said = torchrun("--max-restarts", "1", str(Path(__file__).resolve()), str(text))
    assert "exitcode: -9" in said
    expected = losses(str(text), Processes())
    for rank in (0, 1):
        found = json.loads(text.with_suffix(f".{rank}").read_text())
        assert found.keys() == expected.keys()
        for name in VARIANTS:
            assert len(found[name]) == 5
            for step, other in zip(found[name], expected[name], strict=True):
                assert step == pytest.approx(other, rel=1e-4), name


def test_a_run_goes_on_with_another_number_of_processes(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole command: one process speaks and writes, all go on from its checkpoint."""
    monkeypatch.chdir(text.parent)
    synthetic.write(text.with_name("dev.txt"), 10, seed=1)
    usual = [
        "pretrain",
        "--train",
        "train.txt",
        "--heldout",
        "dev.txt",
        "--preset",
        "tiny",
        "--batch-tokens",
        "100",
        "--dropout",
        "0",
        "--log-every",
        "1",
        "--device",
        "cpu",
        "--decay",
        "none",
    ]
    for arguments in ((*usual, "--steps", "6", "-o", "one"), (*usual, "--steps", "2", "-o", "two")):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    said = torchrun("-m", "elmokit", "pretrain", "-o", "two", "--resume", "--steps", "6", "--device", "cpu")
    assert said.count("from step 2") == 1
    one, two = (Path(folder, "metrics.jsonl").read_text().splitlines() for folder in ("one", "two"))
    found, expected = (
        {line["step"]: line["loss"] for line in map(json.loads, lines) if line["kind"] == "step"}
        for lines in (two, one)
    )
    assert found == pytest.approx(expected, rel=1e-4)
    for name, tensor in weights.load("one").bilm.state_dict().items():
        torch.testing.assert_close(weights.load("two").bilm.state_dict()[name], tensor, atol=1e-4, rtol=1e-3)


def test_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(ConfigError, match="as torchrun sets them"), process_group("cpu"):
        pass
    monkeypatch.delenv("RANK")
    with process_group("cpu") as processes:
        assert processes == Processes()
    with pytest.raises(ConfigError, match=r"device: expected cpu, cuda.* found 'abacus'"), process_group("abacus"):
        pass


def test_a_process_that_loses_another_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one fails alone, at what only it reads or writes; the others hear of it from the network."""
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    for name in ("init_process_group", "destroy_process_group"):
        monkeypatch.setattr(torch.distributed, name, lambda *_, **__: None)
    lost = r"^process 1: lost another process, .*Connection closed.*resume=True$"
    with pytest.raises(ElmoError, match=lost), process_group("cpu"):
        raise RuntimeError("[/third_party/gloo/gloo/transport/tcp/pair.cc:525] Connection closed by peer\nmore")
    with pytest.raises(RuntimeError, match="shapes"), process_group("cpu"):
        raise RuntimeError("shapes do not match")


if __name__ == "__main__":  # one of the processes that torchrun starts
    with process_group("cpu") as here:
        if here.rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        made = losses(sys.argv[1], here)
        Path(sys.argv[1]).with_suffix(f".{here.rank}").write_text(json.dumps(made))
    os._exit(0)  # as in cli/training.py: a thread of torch may abort the interpreter while it shuts down
