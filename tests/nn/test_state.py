"""State of the LSTMs: rows in, rows out."""

from __future__ import annotations

import torch

from elmokit.config import LstmConfig
from elmokit.nn.state import BiLMState

CONFIG = LstmConfig(dim=4, projection_dim=3, n_layers=2)


def random_state(n: int) -> BiLMState:
    generator = torch.Generator().manual_seed(n)
    zeros = BiLMState.zeros(CONFIG, n, like=torch.zeros(1))
    return BiLMState.from_tensors([torch.randn(t.shape, generator=generator) for t in zeros.tensors()])


def equal(a: BiLMState, b: BiLMState) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.tensors(), b.tensors(), strict=True))


def test_zeros_have_the_shape_of_the_network() -> None:
    state = BiLMState.zeros(CONFIG, 5, like=torch.zeros(1, dtype=torch.double))
    assert len(state.forward) == len(state.backward) == 2 and state.n_rows == 5
    for layer in (*state.forward, *state.backward):
        assert layer.output.shape == (5, 3) and layer.cell.shape == (5, 4)
        assert layer.output.dtype == torch.double and not layer.cell.any()


def test_tensors_turn_back() -> None:
    state = random_state(3)
    again = BiLMState.from_tensors(state.tensors())
    assert equal(again, state)
    assert again.backward[1].cell is state.backward[1].cell
    assert state.tensors()[0] is state.forward[0].output


def test_put_is_the_inverse_of_rows() -> None:
    state, new, rows = random_state(4), random_state(2), torch.tensor([3, 1])
    others = state.rows(torch.tensor([0, 2]))
    state.put(rows, new)
    assert equal(state.rows(rows), new)
    assert equal(state.rows(torch.tensor([0, 2])), others)


def test_pad_adds_rows_of_zeros() -> None:
    state = random_state(2)
    assert state.pad(1) is state and state.pad(2) is state
    padded = state.pad(5)
    assert padded.n_rows == 5 and equal(padded.rows(torch.arange(2)), state)
    assert all(not tensor[2:].any() for tensor in padded.tensors())


def test_expand_repeats_one_row() -> None:
    state = random_state(1)
    assert equal(state.expand(3), state.rows(torch.zeros(3, dtype=torch.long)))
