"""The forms that weights take for inference: the same numbers as the plain ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.nn.lstm import LstmLayer, LstmState
from elmokit.nn.matmul import BlockedMatmul
from elmokit.nn.packing import Packing
from elmokit.nn.token_encoder import TokenEncoder

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


def random_encoder(n_characters: int = 262) -> TokenEncoder:
    chars = CharCnnConfig(n_characters=n_characters, filters=((1, 4), (2, 5), (5, 7)), n_highway=1)
    encoder = TokenEncoder(config=ModelConfig(lstm=LstmConfig(dim=8, projection_dim=4), char_cnn=chars))
    for k, parameter in enumerate(encoder.parameters()):
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(k))
    return encoder.requires_grad_(False)


def test_tables_of_characters_compute_the_same() -> None:
    encoder = random_encoder()
    ids = torch.randint(1, 262, (300, 50), generator=torch.Generator().manual_seed(0))
    for row, length in enumerate(torch.arange(300) % 49 + 1):
        ids[row, length:] = 261  # padding
    expected = encoder(ids, None)
    encoder.tabulate_()
    torch.testing.assert_close(encoder(ids, None), expected, atol=1e-5, rtol=1e-5)
    assert not [name for name in encoder.state_dict() if "table" in name]


def test_tables_of_a_large_alphabet_are_not_made() -> None:
    encoder = random_encoder(n_characters=200_000)
    encoder.tabulate_()
    assert all(convolution.table is None for convolution in encoder.convolutions)
