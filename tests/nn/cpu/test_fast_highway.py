"""FastHighway in single precision, which has products and gradients of its own, against Highway in double precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.nn.cpu.fast_highway import ROWS, FastHighway
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.highway import Highway


def make_highway(size: int, seed: int) -> Highway:
    highway, generator = optimize_(Highway(size=size)), torch.Generator().manual_seed(seed)
    assert isinstance(highway, FastHighway)
    with torch.no_grad():
        for parameter in highway.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return highway


@pytest.mark.parametrize("input_learns", [True, False], ids=["input learns", "input is given"])
@given(n=st.sampled_from([0, 1, 2, 31, ROWS, 33, 70]), size=st.integers(1, 40), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_single_precision_learns_the_same(input_learns: bool, n: int, size: int, seed: int) -> None:
    highway, generator = make_highway(size, seed), torch.Generator().manual_seed(seed)
    x, weights = torch.randn(2, n, size, generator=generator)

    def learn(dtype: torch.dtype) -> list[Tensor]:
        own, x_ = highway.to(dtype), x.to(dtype, copy=True).requires_grad_(input_learns)
        y = own(x_)
        wanted = (*own.parameters(), x_) if input_learns else tuple(own.parameters())
        return [y, *torch.autograd.grad((y * weights.to(dtype)).sum(), wanted)]

    for found, expected in zip(learn(torch.float32), learn(torch.double), strict=True):
        torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)


def test_learning_and_reading_agree() -> None:
    highway = make_highway(24, 0)
    x = torch.randn(50, 24, generator=torch.Generator().manual_seed(1))
    learned = highway(x)
    with torch.no_grad():
        torch.testing.assert_close(highway(x), learned.detach())


def test_frozen_weights_hand_gradients_on() -> None:
    highway = make_highway(24, 0).requires_grad_(False)
    x = torch.randn(5, 24, generator=torch.Generator().manual_seed(1), requires_grad=True)
    (found,) = torch.autograd.grad(highway(x).sum(), x)
    x_ = x.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(highway.double()(x_).sum(), x_)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gate.weight", "gate_bias", "transform.weight", "transform_bias"])
def test_nan_is_not_hidden(name: str) -> None:
    """Or training would continue with it."""
    highway = make_highway(24, 0)
    with torch.no_grad():
        highway.get_parameter(name).view(-1)[0] = torch.nan
    assert highway(torch.ones(5, 24)).isnan().any()
