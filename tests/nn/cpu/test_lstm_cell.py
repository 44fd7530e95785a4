"""Pointwise half of an LSTM step against its formula."""

from __future__ import annotations

import pytest
import torch

from elmokit.nn.cpu.lstm_cell import activate_, cell_step


@pytest.mark.parametrize("clip", [None, 0.3])
def test_formula(clip: float | None) -> None:
    generator = torch.Generator().manual_seed(0)
    gates, cell = (torch.randn(3, n, dtype=torch.double, generator=generator) for n in (20, 5))
    i, f, o, j = gates.chunk(4, dim=1)
    expected = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(j)
    if clip is not None:
        expected = expected.clamp(-clip, clip)
    hidden = torch.sigmoid(o) * torch.tanh(expected)
    torch.testing.assert_close(cell_step(activate_(gates.clone()), cell, clip), hidden)
    torch.testing.assert_close(cell, expected)  # in place
