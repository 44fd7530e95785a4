"""Seeds that follow from the position in a run."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from elmokit.training.seeds import seed_of, seeded

CPU = torch.device("cpu")
keys = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4)


@given(keys)
def test_the_same_key_gives_the_same_seed(key: list[int]) -> None:
    assert seed_of(*key) == seed_of(*key) and 0 <= seed_of(*key) < 2**32


def test_nearby_keys_give_unrelated_seeds() -> None:
    assert len({seed_of(a, b) for a in range(30) for b in range(30)}) == 900
    assert seed_of(1, 2) != seed_of(2, 1)


def test_numbers_follow_from_the_key_alone_and_those_of_others_are_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with seeded(CPU, 1, 2):
        first = torch.rand(4)
    assert torch.equal(torch.rand(3), expected)
    with seeded(CPU, 1, 2):
        assert torch.equal(torch.rand(4), first)
    with seeded(CPU, 1, 3):
        assert not torch.equal(torch.rand(4), first)
