"""`--overwrite` removes what elmokit wrote, and nothing else; what cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic
import torch

from elmokit import weights
from elmokit.errors import FormatError, OutputError
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.export import export
from elmokit.pretrain.pretrain_run import CHECKPOINTS, open_run
from elmokit.pretrain.state import TrainingState
from elmokit.training import checkpoint
from elmokit.training.checkpoint import Checkpoint


def test_foreign_files_in_a_run_stop_an_overwrite(tmp_path: Path) -> None:
    text = synthetic.write(tmp_path / "text.txt", 20)
    run = tmp_path / "run"
    open_run(run, Processes(), lambda: synthetic.state(text))
    (run / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match=r"found also thesis\.txt; nothing was removed"):
        open_run(run, Processes(), lambda: synthetic.state(text), overwrite=True)
    assert (run / "thesis.txt").read_text() == "years of work" and checkpoint.paths(run / CHECKPOINTS)
    (run / "thesis.txt").unlink()
    open_run(run, Processes(), lambda: synthetic.state(text), overwrite=True)


def test_a_folder_with_checkpoints_of_others_is_not_a_run(tmp_path: Path) -> None:
    text = synthetic.write(tmp_path / "text.txt", 20)
    home = tmp_path / "home"
    (home / "checkpoints").mkdir(parents=True)
    (home / "checkpoints" / "model.pt").write_text("somebody's")
    (home / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="expected an empty folder or none, found other files"):
        open_run(home, Processes(), lambda: synthetic.state(text), overwrite=True)
    assert sorted(path.name for path in home.rglob("*")) == ["checkpoints", "model.pt", "thesis.txt"]


def test_an_export_removes_no_folder_of_others(tmp_path: Path) -> None:
    state = synthetic.state(synthetic.write(tmp_path / "text.txt", 20))
    run = tmp_path / "run"
    (run / ".model").mkdir(parents=True)
    (run / ".model" / "thesis.txt").write_text("years of work")
    before = {path.name for path in run.iterdir()}
    export(state, run)
    assert (run / ".model" / "thesis.txt").read_text() == "years of work"
    assert weights.load(run).config == state.config
    assert not [path for path in run.iterdir() if path.name.startswith(".") and path.name not in before]


@pytest.mark.parametrize("damage", ["shape", "dtype", "name", "NaN", "missing", "negative", "step", "bilm"])
def test_tensors_of_an_optimizer_are_checked_before_it_sees_them(tmp_path: Path, damage: str) -> None:
    """The checksum is right, so only the tensors themselves can tell; the checkpoint before is used, and named."""
    text = synthetic.write(tmp_path / "text.txt", 20)
    state = synthetic.state(text)
    for parameter in (*state.bilm.parameters(), *state.head.parameters()):
        parameter.grad = torch.zeros_like(parameter)
    state.optimizer.step()
    state.step = 1
    checkpoint.write(state.to_checkpoint(), tmp_path)
    state.step = 2
    whole = state.to_checkpoint()
    tensors = {name: tensor.clone() for name, tensor in whole.tensors.items()}
    name = next(name for name in tensors if name.startswith("optimiser.exp_avg_sq.bilm"))
    if damage == "shape":
        tensors[name] = tensors[name].reshape(-1)[:1].clone()
    elif damage == "dtype":
        tensors[name] = tensors[name].half()
    elif damage == "name":
        tensors[f"{name}.more"] = tensors.pop(name)
    elif damage == "NaN":
        tensors[name].view(-1)[0] = torch.nan
    elif damage == "missing":
        del tensors[name]
    elif damage == "negative":
        tensors[name].view(-1)[0] = -1.0
    elif damage == "step":
        step = next(name for name in tensors if name.startswith("optimiser.step."))
        tensors[step] = torch.zeros(100)
    else:
        weight = next(name for name in tensors if name.startswith("bilm."))
        tensors[weight] = tensors[weight].to(torch.int32)
    checkpoint.write(Checkpoint(whole.record, tensors), tmp_path)
    found, faults = checkpoint.latest(tmp_path, TrainingState.check)
    assert found is not None and found.record["step"] == 1
    assert len(faults) == 1 and "step-000000002" in faults[0] and "\n" not in faults[0]
    with pytest.raises(FormatError):
        TrainingState.from_checkpoint(checkpoint.read(checkpoint.path_of(tmp_path, 2)))
