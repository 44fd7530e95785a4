"""Files of a run are recognized by their content, so that those of other programs are not removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from elmokit.training import checkpoint
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.metrics import FILE, is_metrics


def test_checkpoints_of_ours_and_of_others(tmp_path: Path) -> None:
    ours = checkpoint.write(Checkpoint({"step": 3}, {"weight": torch.ones(4)}), tmp_path)
    assert checkpoint.is_checkpoint(ours) and not checkpoint.is_damaged(ours)
    content = ours.read_bytes()
    ours.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # a damaged tensor
    assert checkpoint.is_checkpoint(ours) and not checkpoint.is_damaged(ours)
    ours.write_bytes(content[:20])  # a damaged header
    assert not checkpoint.is_checkpoint(ours) and checkpoint.is_damaged(ours)
    theirs = tmp_path / "step-100.safetensors"
    for metadata in (None, {"format": "pt"}, {"version": "1"}):
        save_file({"weight": torch.ones(4)}, theirs, metadata)
        assert not checkpoint.is_checkpoint(theirs) and not checkpoint.is_damaged(theirs)
    assert checkpoint.FOLDER.foreign(tmp_path) == ["step-100.safetensors"]
    assert not checkpoint.FOLDER.is_marked(tmp_path)  # a damaged file alone proves nothing


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_and_folders_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        assert not checkpoint.is_checkpoint(path) and not checkpoint.is_damaged(path) and not is_metrics(path)


def test_metrics_of_ours_and_of_others(tmp_path: Path) -> None:
    path = tmp_path / FILE
    for content, is_ours in (
        ('{"kind": "step", "step": 1, "loss": 2.5}\n', True),
        ('{"kind": "step", "step": 1, "loss": 2.5}\n{"kind": "st', True),  # cut off
        ('{"step": 1, "loss": 2.5}\n', False),
        ("", False),
        ("loss,accuracy\n", False),
    ):
        path.write_text(content)
        assert is_metrics(path) == is_ours
