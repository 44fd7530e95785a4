"""Weight initialization."""

from __future__ import annotations

import torch

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.nn.bilm import BiLM
from elmokit.nn.initialize import initialize


def test_as_the_published_trainer() -> None:
    chars = CharCnnConfig(filters=((1, 32), (2, 32)), n_highway=1)
    bilm = BiLM(config=ModelConfig(lstm=LstmConfig(dim=64, projection_dim=32), char_cnn=chars))
    initialize(bilm, torch.Generator().manual_seed(0))
    encoder, layer = bilm.token_encoder, bilm.forward_layers[0]
    assert encoder.char_embedding[0].abs().sum() == 0 and 0.9 < encoder.char_embedding.abs().max() <= 1
    assert 0.04 < encoder.convolutions[1].weight.abs().max() <= 0.05
    assert (encoder.highways[0].gate_bias == -2).all() and (encoder.highways[0].transform_bias == 0).all()
    i, f, o, j = layer.bias.chunk(4)
    assert (f == 1).all() and all((part == 0).all() for part in (i, o, j))
    assert abs(layer.state.weight.std().item() * 32**0.5 - 1) < 0.05
    again = BiLM(config=bilm.config)
    initialize(again, torch.Generator().manual_seed(0))
    assert all(torch.equal(a, b) for a, b in zip(bilm.parameters(), again.parameters(), strict=True))
