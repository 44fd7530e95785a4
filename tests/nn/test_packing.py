"""The packed layout against its definition."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmokit.nn.packing import Packing

lengths_lists = st.lists(st.integers(1, 8), min_size=1, max_size=8).map(lambda x: sorted(x, reverse=True))


@given(lengths_lists)
def test_rows_stand_where_the_definition_says(lengths: list[int]) -> None:
    expected = [(b, t) for t in range(lengths[0]) for b in range(len(lengths)) if lengths[b] > t]
    packing = Packing.from_lengths(lengths)
    assert list(zip(packing.sentence.tolist(), packing.time.tolist(), strict=True)) == expected
    assert packing.n_tokens == sum(lengths)
    for row, (b, t) in enumerate(expected):
        assert expected[packing.reverse[row]] == (b, lengths[b] - 1 - t)
    for b, length in enumerate(lengths):
        assert [expected[row] for row in packing.rows(b)] == [(b, t) for t in range(length)]
        assert expected[packing.last()[b]] == (b, length - 1)


@given(lengths_lists)
def test_pad_and_pack_are_inverse(lengths: list[int]) -> None:
    packing = Packing.from_lengths(lengths)
    rows = torch.arange(packing.n_tokens * 2.0).view(-1, 2) + 1
    padded = packing.pad(rows)
    assert torch.equal(packing.pack(padded), rows)
    assert padded.sum() == rows.sum()  # nothing but zeros elsewhere


@given(lengths_lists, st.integers(1, 30))
def test_blocks_are_whole_steps(lengths: list[int], rows: int) -> None:
    packing = Packing.from_lengths(lengths)
    blocks = list(packing.blocks(rows))
    assert [step for block in blocks for step in block] == packing.steps()
    for block, following in pairwise([*blocks, None]):
        assert len(block) == 1 or block[-1][1] - block[0][0] <= rows
        assert following is None or following[0][1] - block[0][0] > rows  # none that would have had room


@pytest.mark.parametrize("lengths", [[], [0], [2, 3], [3, 0]])
def test_refuses_other_lengths(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="descending"):
        Packing.from_lengths(lengths)
