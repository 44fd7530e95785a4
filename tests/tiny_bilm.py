"""A small biLM that reads characters, and a padded batch for it."""

from __future__ import annotations

import torch

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.nn.bilm import BiLM
from elmokit.nn.padded import TokenIds


def tiny_bilm() -> BiLM:
    """A plain network with random weights."""
    config = ModelConfig(
        lstm=LstmConfig(dim=6, projection_dim=3),
        char_cnn=CharCnnConfig(embedding_dim=2, filters=((1, 3), (2, 2)), n_highway=1, max_characters=6),
    )
    return random_bilm(config)


def random_bilm(config: ModelConfig) -> BiLM:
    """A plain network of any shape with random weights, always the same ones."""
    network = BiLM(config=config)
    generator = torch.Generator().manual_seed(3)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.6, generator=generator)
    return network.eval()


MARKS = TokenIds(torch.tensor([[259, 257, 260, 261, 261, 261], [259, 258, 260, 261, 261, 261]]))
ROWS = torch.tensor([[259, 98, 260, 261, 261, 261], [259, 99, 100, 260, 261, 261], [259, 260, 261, 261, 261, 261]])
ZERO = torch.zeros(6, dtype=torch.long)
SENTENCES = ((ROWS[0], ZERO, ZERO), (ROWS[1], ROWS[0], ROWS[2]), (ZERO, ZERO, ZERO))
BATCH = torch.stack([torch.stack(sentence) for sentence in SENTENCES])
