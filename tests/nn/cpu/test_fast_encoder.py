"""FastTokenEncoder against TokenEncoder: with tables of the convolutions and without, with gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.nn.cpu import fast_encoder
from elmokit.nn.cpu.fast_encoder import FastTokenEncoder
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.token_encoder import TokenEncoder


def random_encoder(n_characters: int = 262) -> FastTokenEncoder:
    chars = CharCnnConfig(n_characters=n_characters, filters=((1, 4), (2, 5), (5, 7)), n_highway=1)
    encoder = TokenEncoder(config=ModelConfig(lstm=LstmConfig(dim=8, projection_dim=4), char_cnn=chars))
    for k, parameter in enumerate(encoder.parameters()):
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(k))
    fast = optimize_(encoder)
    assert isinstance(fast, FastTokenEncoder)
    return fast


def random_words() -> Tensor:
    ids = torch.randint(1, 262, (300, 50), generator=torch.Generator().manual_seed(0))
    for row, length in enumerate(torch.arange(300) % 49 + 1):
        ids[row, length:] = 261  # padding
    return ids


def test_values_and_gradients_equal_the_plain_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, ids = random_encoder(), random_words()

    def vectors_and_gradients(forward: Callable[[TokenEncoder, Tensor, None], Tensor]) -> list[Tensor]:
        vectors = forward(encoder, ids, None)
        return [vectors, *torch.autograd.grad(vectors.square().sum(), list(encoder.parameters()))]

    expected = vectors_and_gradients(TokenEncoder.forward)
    with_tables = vectors_and_gradients(FastTokenEncoder.forward)
    with monkeypatch.context() as patch:
        patch.setattr(fast_encoder, "TABLE_NUMBERS", 0)
        without = vectors_and_gradients(FastTokenEncoder.forward)
    for found in (with_tables, without):
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_tables_that_are_kept_compute_the_same() -> None:
    encoder, ids = random_encoder().requires_grad_(False), random_words()
    expected = encoder(ids, None)
    names = list(encoder.state_dict())
    encoder.tabulate_()
    assert all(convolution.kept_table is not None for convolution in encoder.convolutions)
    assert torch.equal(encoder(ids, None), expected)
    assert list(encoder.state_dict()) == names


def test_tables_of_a_large_alphabet_are_not_made() -> None:
    encoder = random_encoder(n_characters=200_000)
    encoder.tabulate_()
    assert all(convolution.kept_table is None for convolution in encoder.convolutions)
