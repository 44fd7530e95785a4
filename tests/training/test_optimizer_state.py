"""Optimizer states are checked before an optimizer uses them."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic
import torch

from elmokit.errors import FormatError
from elmokit.pretrain.training_state import TrainingState
from elmokit.training import checkpoint
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.optimizer_state import KEPT, checked_state


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


@pytest.mark.parametrize("kind", KEPT)
def test_every_optimizer_keeps_what_the_table_says(kind: type[torch.optim.Optimizer]) -> None:
    weight = torch.nn.Parameter(torch.ones(3, 2))
    optimizer = kind([weight], lr=0.1)  # type: ignore[call-arg]
    weight.sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    kept = optimizer.state[weight]
    assert kept.keys() == {"step", *KEPT[kind]}
    tensors = {f"{key}.weight": torch.as_tensor(value, dtype=torch.float32) for key, value in kept.items()}
    found = checked_state(tensors, {"weight": weight.detach()}, kind, "checkpoint")
    assert found["weight"].keys() == kept.keys()
    assert checked_state({}, {"weight": weight.detach()}, kind, "checkpoint") == {}
    del tensors["step.weight"]
    with pytest.raises(FormatError, match="checkpoint: expected step of weight, found none"):
        checked_state(tensors, {"weight": weight.detach()}, kind, "checkpoint")
