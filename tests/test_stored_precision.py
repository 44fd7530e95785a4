"""Weights as they are stored (benchmarks/stored_precision.py)."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).parents[1]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("stored_precision")


def test_rows_of_8_bits_are_off_by_half_a_step_at_most(benchmark: ModuleType) -> None:
    rows = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 3, 50).unsqueeze(1)
    read, n_bytes = benchmark.int8_rows(rows)
    step = rows.abs().amax(dim=1, keepdim=True) / 127
    assert ((read - rows).abs() <= 0.5001 * step).all()
    assert all(len(set((row / s).round().tolist())) <= 255 for row, s in zip(read, step, strict=True))
    assert n_bytes == 50 * 7 + 50 * 4


def test_a_row_of_zeros_stays_zero(benchmark: ModuleType) -> None:
    read, _ = benchmark.int8_rows(torch.zeros(2, 3))
    assert (read == 0).all()


def test_vectors_are_stored_in_half_precision(benchmark: ModuleType) -> None:
    bias = torch.tensor([0.1, 2.0])
    read, n_bytes = benchmark.int8_rows(bias)
    assert torch.equal(read, bias.half().float())
    assert n_bytes == 4
