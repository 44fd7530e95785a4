"""Filters over characters: a table of sums against windows, both against a slow twin, and their gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.nn import token_encoder
from elmokit.nn.convolution import Convolution
from elmokit.nn.token_encoder import TokenEncoder


def random_convolution(width: int, count: int, seed: int) -> Convolution:
    convolution = Convolution(width=width, channels=3, count=count).double()
    for k, parameter in enumerate(convolution.parameters()):
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(2 * seed + k))
    return convolution


def slow_twin(convolution: Convolution, embedding: Tensor, ids: Tensor) -> Tensor:
    """(n, positions) to (n, count), number by number; of equal answers the first has the gradient."""
    places = convolution.weight.view(convolution.width, embedding.shape[1], -1)
    words = []
    for word in ids.tolist():
        answers = []
        for p in range(len(word) - convolution.width + 1):
            parts = [embedding[word[p + k]] @ places[k] for k in range(convolution.width)]
            answers.append(torch.stack(parts).sum(0))
        best = []
        for f in range(places.shape[-1]):
            values = [float(answer[f].detach()) for answer in answers]
            best.append(answers[values.index(max(values))][f])
        words.append(torch.stack(best) + convolution.bias)
    return torch.stack(words)


@given(st.integers(1, 4), st.integers(0, 4), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**20))
@settings(deadline=None)
def test_both_ways_are_as_the_slow_twin(width: int, more: int, n: int, count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    convolution = random_convolution(width, count, seed)
    embedding = torch.randn(5, 3, dtype=torch.double, generator=generator, requires_grad=True)
    ids = torch.randint(0, 5, (n, width + more), generator=generator)  # few characters: some windows come twice
    weights = torch.randn(n, count, dtype=torch.double, generator=generator)

    def with_gradients(answer: Tensor) -> list[Tensor]:
        return [answer, *torch.autograd.grad((answer * weights).sum(), (embedding, *convolution.parameters()))]

    expected = with_gradients(slow_twin(convolution, embedding, ids))
    by_table = with_gradients(convolution.look_up(ids.split(2), convolution.table(embedding)))
    by_windows = with_gradients(convolution(torch.nn.functional.embedding(ids, embedding).split(2)))
    for found in (by_table, by_windows):
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)
    with torch.no_grad():
        by_table = [convolution.look_up(ids.split(2), convolution.table(embedding))]
        by_windows = [convolution(torch.nn.functional.embedding(ids, embedding).split(2))]
    for (found,) in (by_table, by_windows):
        torch.testing.assert_close(found, expected[0], atol=1e-10, rtol=1e-10)


def random_encoder(n_characters: int = 262) -> TokenEncoder:
    chars = CharCnnConfig(n_characters=n_characters, filters=((1, 4), (2, 5), (5, 7)), n_highway=1)
    encoder = TokenEncoder(config=ModelConfig(lstm=LstmConfig(dim=8, projection_dim=4), char_cnn=chars))
    for k, parameter in enumerate(encoder.parameters()):
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(k))
    return encoder


def random_words() -> Tensor:
    ids = torch.randint(1, 262, (300, 50), generator=torch.Generator().manual_seed(0))
    for row, length in enumerate(torch.arange(300) % 49 + 1):
        ids[row, length:] = 261  # padding
    return ids


def test_an_encoder_with_tables_computes_and_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, ids = random_encoder(), random_words()

    def vectors_and_gradients() -> list[Tensor]:
        vectors = encoder(ids, None)
        return [vectors, *torch.autograd.grad(vectors.square().sum(), list(encoder.parameters()))]

    with_tables = vectors_and_gradients()
    with monkeypatch.context() as patch:
        patch.setattr(token_encoder, "TABLE_NUMBERS", 0)
        without = vectors_and_gradients()
    for a, b in zip(with_tables, without, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_tables_that_are_kept_compute_the_same() -> None:
    encoder, ids = random_encoder().requires_grad_(False), random_words()
    expected = encoder(ids, None)
    names = list(encoder.state_dict())
    encoder.tabulate_()
    assert all(convolution.kept is not None for convolution in encoder.convolutions)
    assert torch.equal(encoder(ids, None), expected)
    assert list(encoder.state_dict()) == names


def test_tables_of_a_large_alphabet_are_not_made() -> None:
    encoder = random_encoder(n_characters=200_000)
    encoder.tabulate_()
    assert all(convolution.kept is None for convolution in encoder.convolutions)
