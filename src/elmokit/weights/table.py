"""Bidirectional weight tables: which foreign array holds which parameters, and in which layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Shape = tuple[int, ...]

OUR_GATES = "ifoj"  # input, forget, output, and j, the cell candidate
TF_GATES = "ijfo"
TORCH_GATES = "ifjo"


@dataclass(frozen=True)
class ArrayLayout:
    """Conversion between one foreign array and one or two of our parameters. `write(read(x), x.shape)` equals x."""

    read: Callable[[Tensor], tuple[Tensor, ...]]
    write: Callable[[tuple[Tensor, ...], Shape], Tensor]  # arguments: our parameters, shape of the foreign array


@dataclass(frozen=True)
class Entry:
    """One row of a table."""

    name: str  # of the foreign array
    shape: Shape  # of the foreign array
    parameters: tuple[str, ...]  # ours
    layout: ArrayLayout


def read_table(table: Iterable[Entry], fetch: Callable[[str, Shape], Tensor]) -> dict[str, Tensor]:
    """Convert foreign arrays, fetched one at a time by name and shape, to our parameters."""
    ours: dict[str, Tensor] = {}
    for entry in table:
        ours.update(zip(entry.parameters, entry.layout.read(fetch(entry.name, entry.shape)), strict=True))
    return ours


def write_table(table: Iterable[Entry], parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Convert our parameters to foreign arrays, one at a time, with their names."""
    for entry in table:
        yield entry.name, entry.layout.write(tuple(parameters[name] for name in entry.parameters), entry.shape)


def reorder(x: Tensor, before: str, after: str) -> Tensor:
    """Reorder the gate blocks of (..., 4C) columns; returns a copy."""
    blocks = dict(zip(before, x.chunk(4, dim=-1), strict=True))
    return torch.cat([blocks[gate] for gate in after], dim=-1)


def _shift_forget(bias: Tensor, by: float) -> Tensor:
    """Add to the forget gate of a bias (4C,) in our order, in place."""
    bias.chunk(4)[OUR_GATES.index("f")].add_(by)
    return bias


def _convolution_from_torch(weight: Tensor) -> Tensor:
    """(count, e, width) to (width * e, count)."""
    return weight.permute(2, 1, 0).reshape(-1, weight.shape[0])


def _convolution_to_torch(weight: Tensor, shape: Shape) -> Tensor:
    """(width * e, count) to (count, e, width)."""
    count, channels, width = shape
    return weight.reshape(width, channels, count).permute(2, 1, 0).contiguous()


AS_IS = ArrayLayout(
    read=lambda x: (x,),
    write=lambda ours, shape: ours[0],
)
RESHAPED = ArrayLayout(  # (1, width, e, count) to (width * e, count)
    read=lambda x: (x.reshape(-1, x.shape[-1]),),
    write=lambda ours, shape: ours[0].reshape(shape),
)
TRANSPOSED = ArrayLayout(
    read=lambda x: (x.t().contiguous(),),
    write=lambda ours, shape: ours[0].t().contiguous(),
)
WITHOUT_PADDING_ROW = ArrayLayout(  # (261, e) to (262, e): row 0 is for padding tokens
    read=lambda x: (torch.cat([x.new_zeros(1, x.shape[1]), x]),),
    write=lambda ours, shape: ours[0][1:],
)
ZERO_PADDING_ROW = ArrayLayout(  # padding is masked, so changes of its row in task training are noise
    read=lambda x: (torch.cat([x.new_zeros(1, x.shape[1]), x[1:]]),),
    write=lambda ours, shape: ours[0],
)
TORCH_CONVOLUTION = ArrayLayout(
    read=lambda x: (_convolution_from_torch(x),),
    write=lambda ours, shape: _convolution_to_torch(ours[0], shape),
)
# One matrix [transform; carry]. The carry gate weighs x, our gate weighs the transform: sigmoid(-a) = 1 - sigmoid(a).
TORCH_HIGHWAY = ArrayLayout(  # (2F, F) to gate (F, F), transform (F, F)
    read=lambda x: (-x.chunk(2)[1].t().contiguous(), x.chunk(2)[0].t().contiguous()),
    write=lambda ours, shape: torch.cat([ours[1].t(), -ours[0].t()]),
)
TORCH_HIGHWAY_BIAS = ArrayLayout(  # (2F,) to gate (F,), transform (F,)
    read=lambda x: (-x.chunk(2)[1], x.chunk(2)[0].clone()),
    write=lambda ours, shape: torch.cat([ours[1], -ours[0]]),
)
TORCH_LSTM = ArrayLayout(  # (4C, D) to (D, 4C)
    read=lambda x: (reorder(x.t(), TORCH_GATES, OUR_GATES).contiguous(),),
    write=lambda ours, shape: reorder(ours[0], OUR_GATES, TORCH_GATES).t().contiguous(),
)
TORCH_LSTM_BIAS = ArrayLayout(  # (4C,); includes the forget-gate offset of 1
    read=lambda x: (reorder(x, TORCH_GATES, OUR_GATES),),
    write=lambda ours, shape: reorder(ours[0], OUR_GATES, TORCH_GATES),
)
TF_LSTM = ArrayLayout(  # (2D, 4C), rows [input; previous output], to input (D, 4C), state (D, 4C)
    read=lambda x: tuple(reorder(half, TF_GATES, OUR_GATES) for half in x.chunk(2)),
    write=lambda ours, shape: torch.cat([reorder(half, OUR_GATES, TF_GATES) for half in ours]),
)
TF_LSTM_BIAS = ArrayLayout(  # (4C,); the forget-gate offset of 1 is added at run time
    read=lambda x: (_shift_forget(reorder(x, TF_GATES, OUR_GATES), 1.0),),
    write=lambda ours, shape: reorder(_shift_forget(ours[0].clone(), -1.0), OUR_GATES, TF_GATES),
)
