"""Weight tables: every layout is exact in both directions, and means what its comment says."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmokit.weights import table
from elmokit.weights.table import OUR_GATES, TF_GATES, TORCH_GATES, ArrayLayout, Entry, read_table, reorder, write_table

C, D, E, F, WIDTH = 3, 2, 4, 5, 2
SHAPES = {
    "AS_IS": (3, 2),
    "RESHAPED": (1, WIDTH, E, F),
    "TRANSPOSED": (D, C),
    "WITHOUT_PADDING_ROW": (6, E),
    "TORCH_CONVOLUTION": (F, E, WIDTH),
    "TORCH_HIGHWAY": (2 * F, F),
    "TORCH_HIGHWAY_BIAS": (2 * F,),
    "TORCH_LSTM": (4 * C, D),
    "TORCH_LSTM_BIAS": (4 * C,),
    "TF_LSTM": (2 * D, 4 * C),
    "TF_LSTM_BIAS": (4 * C,),
}


def layout(name: str) -> ArrayLayout:
    return getattr(table, name)  # type: ignore[no-any-return]


def test_every_layout_is_tested() -> None:
    found = {name for name, value in vars(table).items() if isinstance(value, ArrayLayout)}
    assert found == SHAPES.keys() | {"ZERO_PADDING_ROW"}  # this one drops what it reads in row 0


@pytest.mark.parametrize("name", SHAPES)
def test_there_and_back(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    theirs = torch.randint(-8, 8, SHAPES[name], generator=generator).float()  # exact when 1 is added and taken away
    before = theirs.clone()
    ours = layout(name).read(theirs)
    assert torch.equal(layout(name).write(ours, theirs.shape), before)
    assert torch.equal(theirs, before)


@given(st.permutations(OUR_GATES), st.permutations(OUR_GATES))
def test_gates_are_moved_as_blocks(before: list[str], after: list[str]) -> None:
    x = torch.arange(8.0).reshape(1, 8)
    moved = reorder(x, "".join(before), "".join(after))
    assert all(moved[0, 2 * after.index(g)] == x[0, 2 * before.index(g)] for g in OUR_GATES)
    assert torch.equal(reorder(moved, "".join(after), "".join(before)), x)


def gates(x: Tensor, order: str, dim: int = -1) -> dict[str, Tensor]:
    return dict(zip(order, x.chunk(4, dim=dim), strict=True))


def test_lstm_weights() -> None:
    torch_weight, tf_weight = torch.randn(4 * C, D), torch.randn(2 * D, 4 * C)
    (ours,) = table.TORCH_LSTM.read(torch_weight)
    by_input, by_state = table.TF_LSTM.read(tf_weight)
    for gate in OUR_GATES:
        assert torch.equal(gates(ours, OUR_GATES)[gate], gates(torch_weight, TORCH_GATES, 0)[gate].t())
        assert torch.equal(gates(by_input, OUR_GATES)[gate], gates(tf_weight[:D], TF_GATES)[gate])
        assert torch.equal(gates(by_state, OUR_GATES)[gate], gates(tf_weight[D:], TF_GATES)[gate])


def test_only_the_published_bias_lacks_the_offset_of_the_forget_gate() -> None:
    zeros = torch.zeros(4 * C)
    offset = {gate: block.tolist() for gate, block in gates(table.TF_LSTM_BIAS.read(zeros)[0], OUR_GATES).items()}
    assert offset == {gate: [float(gate == "f")] * C for gate in OUR_GATES}
    assert torch.equal(table.TORCH_LSTM_BIAS.read(zeros)[0], zeros)


def test_a_highway_carries_where_ours_transforms() -> None:
    """AllenNLP: g * x + (1 - g) * relu(a); ours: g' * relu(a) + (1 - g') * x."""
    weight, bias, x = torch.randn(2 * F, F), torch.randn(2 * F), torch.randn(7, F)
    a, g = (x @ weight.t() + bias).chunk(2, dim=-1)
    theirs = torch.sigmoid(g) * x + (1 - torch.sigmoid(g)) * torch.relu(a)
    (gate, transform), (gate_bias, transform_bias) = (
        table.TORCH_HIGHWAY.read(weight),
        table.TORCH_HIGHWAY_BIAS.read(bias),
    )
    ours = torch.sigmoid(x @ gate + gate_bias)
    assert torch.allclose(ours * torch.relu(x @ transform + transform_bias) + (1 - ours) * x, theirs, atol=1e-6)


def test_convolutions() -> None:
    """Row (w, e) of ours is tap w of channel e."""
    weight, x = torch.randn(F, E, WIDTH), torch.randn(1, E, 6)
    (ours,) = table.TORCH_CONVOLUTION.read(weight)
    theirs = torch.nn.functional.conv1d(x, weight)[0]
    windows = torch.stack([x[0, :, i : i + WIDTH].t().reshape(-1) for i in range(5)])
    assert torch.allclose((windows @ ours).t(), theirs, atol=1e-5)
    (published,) = table.RESHAPED.read(weight.permute(2, 1, 0)[None].contiguous())
    assert torch.equal(published, ours)


def test_padding_rows() -> None:
    rows = torch.ones(3, E)
    assert table.WITHOUT_PADDING_ROW.read(rows)[0].sum(dim=1).tolist() == [0, E, E, E]
    assert table.ZERO_PADDING_ROW.read(rows)[0].sum(dim=1).tolist() == [0, E, E]


def test_a_table_is_read_and_written_in_its_order() -> None:
    rows = [
        Entry("bias", (4 * C,), ("b",), table.TF_LSTM_BIAS),
        Entry("weight", (2 * D, 4 * C), ("w", "u"), table.TF_LSTM),
    ]
    theirs = {row.name: torch.randint(-8, 8, row.shape).float() for row in rows}
    asked: list[tuple[str, tuple[int, ...]]] = []

    def fetch(name: str, shape: tuple[int, ...]) -> Tensor:
        asked.append((name, shape))
        return theirs[name]

    ours = read_table(rows, fetch)
    assert list(ours) == ["b", "w", "u"] and asked == [(row.name, row.shape) for row in rows]
    written = list(write_table(rows, ours))
    assert [name for name, _ in written] == list(theirs)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in written)


def test_gate_orders_are_permutations() -> None:
    for one, other in itertools.combinations((OUR_GATES, TF_GATES, TORCH_GATES), 2):
        assert sorted(one) == sorted(other) and one != other
