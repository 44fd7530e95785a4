"""FastLstmLayer against LstmLayer, for training and for inference, with gradients."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.config import LstmConfig
from elmokit.nn.cpu import lstm_gradient, operators
from elmokit.nn.cpu.fast_lstm import FastLstmLayer
from elmokit.nn.lstm import LstmLayer
from elmokit.nn.packing import Packing
from elmokit.nn.state import LstmState

CONFIGS = {
    "plain": LstmConfig(dim=5, projection_dim=3, cell_clip=None, proj_clip=None),
    "clipped": LstmConfig(dim=5, projection_dim=3, cell_clip=0.4, proj_clip=0.3),
    "no projection": LstmConfig(dim=4, projection_dim=4, cell_clip=0.5, proj_clip=0.3),
}


def make_layer(config: LstmConfig, seed: int = 0) -> FastLstmLayer:
    generator = torch.Generator().manual_seed(seed)
    layer = FastLstmLayer(config=config).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double))
    return layer


def zero_state(layer: LstmLayer, n: int) -> LstmState:
    return LstmState(layer.bias.new_zeros(n, layer.config.projection_dim), layer.bias.new_zeros(n, layer.config.dim))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("with_index", [False, True])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_values_and_gradients_equal_the_plain_layer(name: str, with_index: bool, data: st.DataObject) -> None:
    config = CONFIGS[name]
    lengths = sorted(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)), reverse=True)
    seed = data.draw(st.integers(0, 1000))
    generator = torch.Generator().manual_seed(seed)
    layer = make_layer(config, seed)
    packing = Packing.from_lengths(lengths)
    d = config.projection_dim

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.double).requires_grad_()

    index = torch.randint(0, 4, (packing.n_tokens,), generator=generator) if with_index else None
    x = draw(4 if with_index else packing.n_tokens, d)
    state = LstmState(draw(len(lengths), d), draw(len(lengths), config.dim))
    weight_m, weight_c = draw(packing.n_tokens, d).detach(), draw(len(lengths), config.dim).detach()
    inputs = [x, state.output, state.cell, *layer.parameters()]

    with patch.object(
        lstm_gradient, "GATE_NUMBERS_PER_BLOCK", data.draw(st.sampled_from([1, 100, 2**22]))
    ):  # of a step, some, all
        m, end = layer.run(x, index, packing, state)
        loss = (m * weight_m).sum() + (end.cell * weight_c).sum() + end.output.sum()
        gradients = torch.autograd.grad(loss, inputs)

    expected, expected_end = LstmLayer.forward(layer, x if index is None else x[index], packing, state)
    loss = (expected * weight_m).sum() + (expected_end.cell * weight_c).sum() + expected_end.output.sum()
    torch.testing.assert_close(m, expected)
    torch.testing.assert_close(end.output, expected_end.output)
    torch.testing.assert_close(end.cell, expected_end.cell)
    for ours, theirs in zip(gradients, torch.autograd.grad(loss, inputs), strict=True):
        torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        fast, fast_end = layer.run(x, index, packing, state)
    torch.testing.assert_close(fast, m)
    torch.testing.assert_close(fast_end.cell, end.cell)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradcheck(name: str) -> None:
    layer = make_layer(CONFIGS[name])
    packing = Packing.from_lengths([4, 2, 1])
    generator = torch.Generator().manual_seed(1)
    d, c = layer.config.projection_dim, layer.config.dim
    shapes = ((7, d), (3, d), (3, c))
    arguments = [torch.randn(s, generator=generator, dtype=torch.double).requires_grad_() for s in shapes]

    def run(x: Tensor, output: Tensor, cell: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        m, end = layer(x, packing, LstmState(output, cell))
        return m, end.cell

    assert torch.autograd.gradcheck(run, (*arguments, *layer.parameters()))


@pytest.mark.parametrize("projection_dim", [8, 16], ids=["projection", "no projection"])
@pytest.mark.parametrize("with_index", [False, True])
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=50), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_single_precision_learns_the_same(
    projection_dim: int, with_index: bool, lengths: list[int], seed: int
) -> None:  # fmt: skip
    """Which has products of its own, with spare rows of whatever was in memory."""
    config = LstmConfig(dim=16, projection_dim=projection_dim, cell_clip=None, proj_clip=None)
    packing, layer = Packing.from_lengths(sorted(lengths, reverse=True)), make_layer(config, seed)
    with torch.no_grad():  # large weights would make small differences large from one step to the next
        for parameter in layer.parameters():
            parameter.mul_(0.3)
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, 9, (packing.n_tokens,), generator=generator) if with_index else None
    x = torch.randn(9 if with_index else packing.n_tokens, projection_dim, generator=generator, dtype=torch.double)
    weights = torch.randn(packing.n_tokens, projection_dim, generator=generator, dtype=torch.double)

    def learn(dtype: torch.dtype) -> list[Tensor]:
        own, x_ = layer.to(dtype), x.to(dtype).requires_grad_()
        m, end = own.run(x_, index, packing, zero_state(own, len(lengths)))
        loss = (m * weights.to(dtype)).sum() + end.cell.sum()
        return [m, *torch.autograd.grad(loss, (x_, *own.parameters()))]

    expected = learn(torch.double)
    with patch.object(Tensor, "new_empty", lambda self, *shape: self.new_full(shape, torch.nan)):
        found = learn(torch.float32)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, atol=1e-4, rtol=1e-4)


def test_autocast_leaves_the_recurrence_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "has_bfloat16", lambda: False)
    layer = make_layer(CONFIGS["clipped"]).float()
    packing = Packing.from_lengths([3, 1])
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    expected, _ = layer(x, packing, zero_state(layer, 2))
    with torch.autocast("cpu", torch.bfloat16):
        actual, _ = layer(x.bfloat16(), packing, zero_state(layer, 2))
        with torch.no_grad():
            inferred, _ = layer(x.bfloat16(), packing, zero_state(layer, 2))
    assert actual.dtype == inferred.dtype == torch.float32
    torch.testing.assert_close(actual, layer(x.bfloat16().float(), packing, zero_state(layer, 2))[0])
    torch.testing.assert_close(actual, inferred)
    torch.testing.assert_close(actual, expected, atol=0.05, rtol=0.05)
