"""FastBiLM against BiLM. Sentences with the same start are read as one for a step, unless their state is given."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.config import LstmConfig, ModelConfig
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu import lstm_gradient
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.packing import Packing

N_WORDS = 6


def make_bilm(skip_connections: bool, seed: int) -> BiLM:
    lstm = LstmConfig(
        dim=5, projection_dim=3, n_layers=3, cell_clip=0.4, proj_clip=0.3, skip_connections=skip_connections
    )
    bilm = BiLM(config=ModelConfig(lstm=lstm, char_cnn=None, n_words=N_WORDS, word_dim=3)).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double))
    return optimize_(bilm)


def learn(bilm: BiLM, words: Tensor, left: Tensor, right: Tensor, packing: Packing, given: bool) -> list[Tensor]:
    """All that comes out of a biLM, and the gradients of some sum of it."""
    state = bilm.zero_state(len(packing.lengths)) if given else None
    output = bilm(words, left, packing, state, backward_index=right)
    results = [*output.forward, *output.backward, *output.state.tensors()]
    total = sum((result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum() for result in results)
    learning = [p for name, p in bilm.named_parameters() if "layers" in name]
    return [*results, *torch.autograd.grad(total, (words, *learning))]


@pytest.mark.parametrize("skip_connections", [True, False])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_values_and_gradients_do_not_depend_on_it(skip_connections: bool, data: st.DataObject) -> None:
    lengths = sorted(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)), reverse=True)
    seed, same, n_rows = data.draw(st.tuples(st.integers(0, 1000), st.booleans(), st.sampled_from([1, 7, 1000])))
    bilm, packing = make_bilm(skip_connections, seed), Packing.from_lengths(lengths)
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(N_WORDS, 3, dtype=torch.double, generator=generator, requires_grad=True)
    left, right = torch.randint(0, N_WORDS, (2, packing.n_tokens), generator=generator)
    if same:  # what each direction reads first
        left[: len(lengths)], right[packing.reverse[: len(lengths)]] = 2, 4
    with patch.object(lstm_gradient, "GATE_NUMBERS_PER_BLOCK", n_rows * 4 * 5):
        found, expected = (learn(bilm, words, left, right, packing, given) for given in (False, True))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=9), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_single_precision_learns_the_same(lengths: list[int], seed: int) -> None:
    """Which has products of its own, with spare rows of whatever was in memory."""
    bilm, packing = make_bilm(True, seed), Packing.from_lengths(sorted(lengths, reverse=True))
    with torch.no_grad():  # large weights would make small differences large from one step to the next
        for parameter in bilm.parameters():
            parameter.mul_(0.3)
    words = torch.randn(N_WORDS, 3, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    index = torch.arange(packing.n_tokens) % N_WORDS
    index[: len(lengths)] = 2
    expected = learn(bilm, words.clone().requires_grad_(), index, index, packing, given=True)
    with patch.object(Tensor, "new_empty", lambda self, *shape: self.new_full(shape, torch.nan)):
        found = learn(bilm.float(), words.float().requires_grad_(), index, index, packing, given=False)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, atol=1e-4, rtol=1e-4)


def test_dropout_keeps_them_apart() -> None:
    bilm, packing = make_bilm(True, 0), Packing.from_lengths([3, 3, 2])
    bilm.dropout = 0.5
    words = torch.randn(N_WORDS, 3, dtype=torch.double, generator=torch.Generator().manual_seed(1)).requires_grad_()
    index = torch.full((packing.n_tokens,), 2)
    results = []
    for given_state in (False, True):
        torch.manual_seed(0)
        results.append(learn(bilm, words, index, index, packing, given_state))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)
