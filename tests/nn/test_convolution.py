"""Convolution over characters, number by number."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.nn.convolution import Convolution


@given(st.integers(1, 4), st.integers(0, 4), st.integers(1, 4), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_largest_answer_over_all_positions(width: int, more: int, count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    convolution = Convolution(width=width, channels=3, count=count).double()
    for parameter in convolution.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    x = torch.randn(2, width + more, 3, dtype=torch.double, generator=generator)
    windows = [x[:, p : p + width].reshape(2, -1) @ convolution.weight for p in range(more + 1)]  # each (2, count)
    expected = torch.stack(windows).amax(dim=0) + convolution.bias
    torch.testing.assert_close(convolution(x), expected)
