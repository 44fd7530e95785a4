"""Checkpoint files: written whole, verified, kept and pruned."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import synthetic
from full_disk import file_size_limit

from elmokit.errors import FormatError, OutputError
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.loop import train
from elmokit.pretrain.training_state import TrainingState
from elmokit.training import checkpoint
from elmokit.training.checkpoint import Checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("text") / "train.txt", 120)


@pytest.fixture
def kept(text: Path) -> Checkpoint:
    state = synthetic.state(text)
    for _ in islice(train(state, Corpus(str(text))), 2):
        pass
    return state.to_checkpoint()


def test_what_is_written_is_read(tmp_path: Path, kept: Checkpoint) -> None:
    path = checkpoint.write(kept, tmp_path / "new" / "folder")
    again = checkpoint.read(path)
    assert synthetic.same(again, kept)
    assert [p.name for p in path.parent.iterdir()] == ["step-000000002.safetensors"]
    assert synthetic.same(TrainingState.from_checkpoint(again).to_checkpoint(), kept)


def at_step(kept: Checkpoint, step: int) -> Checkpoint:
    return replace(kept, record={**kept.record, "step": step})


@pytest.mark.parametrize("damage", ["cut", "bit", "record", "empty", "other"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, kept: Checkpoint, damage: str) -> None:
    checkpoint.write(at_step(kept, 5), tmp_path)
    path = checkpoint.write(at_step(kept, 9), tmp_path)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[:-100]
    elif damage == "bit":
        content[-1000] ^= 1
    elif damage == "record":  # in the JSON: the number of tokens
        place = content.index(b'tokens\\": ') + 10
        content[place] = ord("8") if content[place] != ord("8") else ord("9")
    elif damage == "empty":
        content.clear()
    else:
        content[:] = b"something else"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"step-000000009.safetensors: expected .* found "):
        checkpoint.read(path)
    found, faults = checkpoint.latest(tmp_path, lambda found: None)
    assert found is not None and found.record["step"] == 5
    assert len(faults) == 1 and "000000009" in faults[0]


def test_nothing_but_damaged_checkpoints_is_an_error(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "none", lambda found: None) == (None, [])
    (tmp_path / "step-000000001.safetensors").write_bytes(b"")
    with pytest.raises(FormatError, match=r"expected an intact checkpoint, found none .*overwrite=True"):
        checkpoint.latest(tmp_path, lambda found: None)


def test_a_checkpoint_outlives_damaged_ones_of_later_steps(tmp_path: Path, kept: Checkpoint) -> None:
    checkpoint.write(at_step(kept, 5), tmp_path)
    for step in (7, 9):
        checkpoint.path_of(tmp_path, step).write_bytes(b"cut short")
    checkpoint.write(at_step(kept, 6), tmp_path)
    checkpoint.prune(tmp_path, None)
    found, faults = checkpoint.latest(tmp_path, lambda found: None)
    assert found is not None and found.record["step"] == 6 and not faults


def test_the_last_two_and_the_best_are_kept(tmp_path: Path, kept: Checkpoint) -> None:
    for step in (3, 5, 7, 9):
        checkpoint.write(at_step(kept, step), tmp_path)
    (tmp_path / ".new-123").write_text("left by a writer that was killed")
    checkpoint.prune(tmp_path, 3)
    assert [p.name[-13:-12] for p in sorted(tmp_path.iterdir())] == ["3", "7", "9"]
    checkpoint.prune(tmp_path, 9)
    assert [p.name[-13:-12] for p in sorted(tmp_path.iterdir())] == ["7", "9"]


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, kept: Checkpoint) -> None:
    checkpoint.write(at_step(kept, 5), tmp_path)
    with file_size_limit(5000), pytest.raises(OutputError, match=r"cannot be written: .*make room"):
        checkpoint.write(at_step(kept, 9), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000005.safetensors"]
    found, faults = checkpoint.latest(tmp_path, lambda found: None)
    assert found is not None and not faults
