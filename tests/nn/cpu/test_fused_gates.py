"""Fused gates against the two products that they stand for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.config import LstmConfig
from elmokit.nn.cpu import operators
from elmokit.nn.cpu.fast_lstm import FastLstmLayer
from elmokit.nn.packing import Packing
from elmokit.nn.state import LstmState

onednn = pytest.mark.skipif(not operators.has_onednn(), reason="oneDNN's linear operators cannot be used")


def random_layer(config: LstmConfig, seed: int) -> FastLstmLayer:
    layer = FastLstmLayer(config=config)
    for k, parameter in enumerate(layer.parameters()):
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(seed + k))
    return layer.requires_grad_(False)


@onednn
@pytest.mark.parametrize("projection_dim", [8, 16], ids=["projection", "no projection"])
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=40), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_fused_gates_compute_the_same(projection_dim: int, lengths: list[int], seed: int) -> None:
    config = LstmConfig(dim=16, projection_dim=projection_dim, cell_clip=0.8, proj_clip=0.7)
    layer, fused = random_layer(config, seed), random_layer(config, seed)
    fused.fuse_()
    packing = Packing.from_lengths(sorted(lengths, reverse=True))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(packing.n_tokens, projection_dim, generator=generator)
    n = len(lengths)
    state = LstmState(
        torch.randn(n, projection_dim, generator=generator) / 2, torch.randn(n, 16, generator=generator) / 2
    )
    m, end = layer(x, packing, state)
    m_fused, end_fused = fused(x, packing, state)
    torch.testing.assert_close(m_fused, m, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(end_fused.output, end.output, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(end_fused.cell, end.cell, atol=1e-5, rtol=1e-5)  # of those that ended early, too


@onednn
def test_a_state_dict_has_the_weights_as_they_were() -> None:
    config = LstmConfig(dim=16, projection_dim=8)
    layer, fused = random_layer(config, 0), random_layer(config, 0)
    fused.fuse_()
    assert fused.fused is not None
    found, expected = fused.state_dict(), layer.state_dict()
    assert sorted(found) == sorted(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
