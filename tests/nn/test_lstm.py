"""LSTM layer: packed sentences against one sentence at a time, clips and gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.config import LstmConfig
from elmokit.nn.lstm import LstmLayer
from elmokit.nn.packing import Packing
from elmokit.nn.state import LstmState

CONFIGS = {
    "plain": LstmConfig(dim=5, projection_dim=3, cell_clip=None, proj_clip=None),
    "clipped": LstmConfig(dim=5, projection_dim=3, cell_clip=0.4, proj_clip=0.3),
    "no projection": LstmConfig(dim=4, projection_dim=4, cell_clip=0.5, proj_clip=0.3),
}


def make_layer(config: LstmConfig, seed: int = 0) -> LstmLayer:
    layer, generator = LstmLayer(config=config).double(), torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return layer


def slow_lstm(layer: LstmLayer, x: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
    """One sentence, one token at a time: (n, D) to (n, D)."""
    config = layer.config
    m, c = state.output, state.cell
    outputs = []
    for token in x:
        i, f, o, j = (token @ layer.input.weight + m @ layer.state.weight + layer.bias).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j)
        if config.cell_clip is not None:
            c = c.clamp(-config.cell_clip, config.cell_clip)
        m = torch.sigmoid(o) * torch.tanh(c)
        if layer.projection is not None:
            m = m @ layer.projection.weight
            if config.proj_clip is not None:
                m = m.clamp(-config.proj_clip, config.proj_clip)
        outputs.append(m)
    return torch.stack(outputs), LstmState(m, c)


@pytest.mark.parametrize("name", CONFIGS)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_packed_sentences_equal_one_at_a_time(name: str, lengths: list[int], seed: int) -> None:
    config = CONFIGS[name]
    layer, generator = make_layer(config, seed), torch.Generator().manual_seed(seed)
    packing = Packing.from_lengths(sorted(lengths, reverse=True))
    x = torch.randn(packing.n_tokens, config.projection_dim, dtype=torch.double, generator=generator)
    state = LstmState(
        *(torch.randn(len(lengths), n, dtype=torch.double, generator=generator) for n in (x.shape[1], config.dim))
    )
    m, end = layer(x, packing, state)
    for b in range(len(lengths)):
        rows = packing.rows(b)
        expected, expected_end = slow_lstm(layer, x[rows], LstmState(state.output[b], state.cell[b]))
        torch.testing.assert_close(m[rows], expected)
        torch.testing.assert_close(end.output[b], expected_end.output)
        torch.testing.assert_close(end.cell[b], expected_end.cell)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradcheck(name: str) -> None:
    layer = make_layer(CONFIGS[name])
    packing, generator = Packing.from_lengths([4, 2, 1]), torch.Generator().manual_seed(1)
    d, c = layer.config.projection_dim, layer.config.dim
    arguments = [
        torch.randn(shape, generator=generator, dtype=torch.double).requires_grad_()
        for shape in ((7, d), (3, d), (3, c))
    ]

    def run(x: Tensor, output: Tensor, cell: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        m, end = layer(x, packing, LstmState(output, cell))
        return m, end.cell

    assert torch.autograd.gradcheck(run, (*arguments, *layer.parameters()))


def test_autocast_leaves_the_recurrence_alone() -> None:
    layer, packing = make_layer(CONFIGS["clipped"]).float(), Packing.from_lengths([3, 1])
    x, zero = torch.randn(4, 3), LstmState(torch.zeros(2, 3), torch.zeros(2, 5))
    with torch.autocast("cpu", torch.bfloat16):
        m, _ = layer(x.bfloat16(), packing, zero)
    assert m.dtype == torch.float32
    torch.testing.assert_close(m, layer(x.bfloat16().float(), packing, zero)[0])
