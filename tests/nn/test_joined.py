"""The forms that weights take for inference: the same numbers as the plain ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.config import LstmConfig
from elmokit.nn.lstm import LstmLayer, LstmState
from elmokit.nn.matmul import BlockedMatmul
from elmokit.nn.packing import Packing

blocked = pytest.mark.skipif(not BlockedMatmul.available(torch.zeros(1)), reason="this torch has no blocked weights")


def random_layer(config: LstmConfig, seed: int) -> LstmLayer:
    layer = LstmLayer(config=config)
    for k, parameter in enumerate(layer.parameters()):
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(seed + k))
    return layer.requires_grad_(False)


@blocked
@pytest.mark.parametrize("projection_dim", [8, 16], ids=["projection", "no projection"])
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=40), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_joined_weights_compute_the_same(projection_dim: int, lengths: list[int], seed: int) -> None:
    config = LstmConfig(dim=16, projection_dim=projection_dim, cell_clip=0.8, proj_clip=0.7)
    layer, joined = random_layer(config, seed), random_layer(config, seed)
    joined.join_()
    packing = Packing.from_lengths(sorted(lengths, reverse=True))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(packing.n_tokens, projection_dim, generator=generator)
    n = len(lengths)
    state = LstmState(
        torch.randn(n, projection_dim, generator=generator) / 2, torch.randn(n, 16, generator=generator) / 2
    )
    m, end = layer(x, None, packing, state)
    m_joined, end_joined = joined(x, None, packing, state)
    torch.testing.assert_close(m_joined, m, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(end_joined.output, end.output, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(end_joined.cell, end.cell, atol=1e-5, rtol=1e-5)  # of those that ended early, too


@blocked
def test_joined_weights_come_apart_again() -> None:
    config = LstmConfig(dim=16, projection_dim=8)
    layer, joined = random_layer(config, 0), random_layer(config, 0)
    joined.join_()
    assert joined.joined is not None
    w, u = joined.joined.separate()
    assert torch.equal(w, layer.input.weight)
    assert torch.equal(u, layer.state.weight)
