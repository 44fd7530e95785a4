"""State policies: initial states of sentences, and what is kept of final ones."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from tiny_bilm import tiny_bilm

from elmokit.config import IndependentState, State
from elmokit.nn.state import BiLMState
from elmokit.nn.state_policy import INDEPENDENT_STATES, POLICIES, Carry, Reset, Warm

ROWS = torch.tensor([2, 0, 1])


def add_one(state: BiLMState) -> BiLMState:
    return BiLMState.from_tensors([tensor + 1 for tensor in state.tensors()])


def test_every_name_has_a_policy() -> None:
    assert tuple(POLICIES) == get_args(State)
    assert get_args(IndependentState) == INDEPENDENT_STATES == ("reset", "warm")


def test_policies_say_whether_they_start_from_one_fixed_state() -> None:
    for policy_class in POLICIES.values():
        policy = policy_class(tiny_bilm(), add_one)
        starts_at_zero = not any(tensor.any() for tensor in policy.start(ROWS).tensors())
        assert policy.fixed_start == (policy.independent and not starts_at_zero)


def test_reset_is_zero() -> None:
    policy = Reset(tiny_bilm())
    policy.end(ROWS, add_one(policy.start(ROWS)))
    assert all(tensor.shape[0] == 3 and not tensor.any() for tensor in policy.start(ROWS).tensors())


def test_warm_reads_its_text_once() -> None:
    calls = []

    def warm_up(state: BiLMState) -> BiLMState:
        calls.append(state)
        return add_one(state)

    policy = Warm(tiny_bilm(), warm_up)
    for _ in range(2):
        assert all(tensor.shape[0] == 3 and (tensor == 1).all() for tensor in policy.start(ROWS).tensors())
    assert len(calls) == 1 and calls[0].n_rows == 1
    with pytest.raises(ValueError, match="warm_up: expected a function"):
        Warm(tiny_bilm()).start(ROWS)


def test_carry_hands_on_row_by_row() -> None:
    policy = Carry(tiny_bilm())
    start = policy.start(ROWS)
    assert not any(tensor.any() for tensor in start.tensors())
    numbered = BiLMState.from_tensors([t + ROWS.unsqueeze(1) + 1 for t in start.tensors()])  # row r gets r + 1
    policy.end(ROWS, numbered)
    assert policy.start(torch.tensor([1])).forward[0].output.tolist() == [[2.0] * 3]
    more = policy.start(torch.tensor([3, 2]))  # a new row is zero, the others stay
    assert more.backward[1].cell[:, 0].tolist() == [0, 3]
    assert policy.carried is not None and policy.carried.n_rows == 4
    policy.carried = None
    assert not policy.start(ROWS).forward[0].output.any()
