"""Token encoder: characters, words or both."""

from __future__ import annotations

import pytest
import torch

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.nn import token_encoder
from elmokit.nn.token_encoder import TokenEncoder

CHARS = CharCnnConfig(embedding_dim=2, filters=((1, 3), (2, 2)), n_highway=1, max_characters=6)
LSTM = LstmConfig(dim=6, projection_dim=3)
IDS = torch.tensor([[259, 98, 260, 261, 261, 261], [259, 99, 100, 260, 261, 261], [259, 260, 261, 261, 261, 261]])


def make_encoder(config: ModelConfig) -> TokenEncoder:
    encoder, generator = TokenEncoder(config=config), torch.Generator().manual_seed(0)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return encoder


def test_a_word_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make_encoder(ModelConfig(lstm=LSTM, char_cnn=CHARS))
    together = encoder(IDS, None)
    assert together.shape == (3, 3)
    torch.testing.assert_close(torch.cat([encoder(row.unsqueeze(0), None) for row in IDS]), together)
    monkeypatch.setattr(token_encoder, "WORDS_AT_ONCE", 2)
    torch.testing.assert_close(encoder(IDS, None), together)


def test_a_word_table_alone() -> None:
    encoder = make_encoder(ModelConfig(lstm=LSTM, char_cnn=None, n_words=5, word_dim=3))
    words = torch.tensor([4, 0, 4])
    assert torch.equal(encoder(None, words), encoder.word_embedding[words])


def test_words_and_characters() -> None:
    encoder = make_encoder(ModelConfig(lstm=LSTM, char_cnn=CHARS, n_words=5, word_dim=4))
    words = torch.tensor([1, 2, 2])
    (highway,) = encoder.highways
    both = torch.cat((encoder.word_embedding[words], highway(encoder.convolve(IDS))), dim=1)
    torch.testing.assert_close(encoder(IDS, words), both @ encoder.projection.weight + encoder.projection_bias)
