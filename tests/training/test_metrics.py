"""Metrics as JSON Lines, and TensorBoard files where it is installed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from full_disk import file_size_limit

from elmokit.errors import OutputError
from elmokit.training.metrics import MetricsLog, read_metrics


def test_a_full_disk_leaves_the_metrics_as_they_were(tmp_path: Path) -> None:
    lines = "".join(f'{{"kind": "step", "step": {step}}}\n' for step in range(9))
    (tmp_path / "metrics.jsonl").write_text(lines)
    with (
        file_size_limit(50),
        pytest.raises(OutputError, match=r"metrics.jsonl: cannot be written: .*make room.*resume=True"),
    ):
        MetricsLog(tmp_path, 6)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    assert (tmp_path / "metrics.jsonl").read_text() == lines


def test_lines_after_the_last_checkpoint_are_written_again(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0) as log:
        for step in range(1, 6):
            log.write("step", step, {"loss": 1 / step})
    with MetricsLog(tmp_path, 3) as log:
        log.write("step", 4, {"loss": math.inf})
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4] and lines[-1]["loss"] == math.inf


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"kind": "step", "step": 1}\n{"kind": "step", "st\n[]\n{"kind": 3, "step": 2}\n\xff\n')
    assert read_metrics(path) == [{"kind": "step", "step": 1}]
