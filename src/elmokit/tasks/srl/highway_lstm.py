"""Deep alternating highway LSTM (He et al. 2017) over packed sequences."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.nn.packing import Packing


class HighwayLstmLayer(nn.Module):
    """Unidirectional highway LSTM layer (Zhang et al. 2016; He et al. 2017, equations 2 to 8).

        i, f, o, r = sigmoid(x W + h' U + b);  j = tanh(x W + h' U + b)
        c = f c' + i j
        h = z (r o tanh(c) + (1 - r) x V)

    r is the highway gate; z is variational recurrent dropout, one mask per sentence. The five blocks of W, U and b are
    in the order i, f, j, o, r: the first three get their gradient from the cell, the others from h.
    """

    def __init__(self, *, n_in: int, n_hidden: int, backward: bool = False) -> None:
        super().__init__()
        self.backward = backward
        self.input = nn.Parameter(torch.empty(n_in, 5 * n_hidden))  # W
        self.carry = nn.Parameter(torch.empty(n_in, n_hidden))  # V
        self.state = nn.Parameter(torch.empty(n_hidden, 5 * n_hidden))  # U
        self.bias = nn.Parameter(torch.zeros(5 * n_hidden))
        for block in (*self.input.chunk(5, dim=1), self.carry, *self.state.chunk(5, dim=1)):
            nn.init.orthogonal_(block.data)
        self.bias.data.chunk(5)[1].fill_(1)  # forget-gate bias of 1

    def forward(self, x: Tensor, index: Tensor | None, packing: Packing, dropout: Tensor | None = None) -> Tensor:
        """Run over packed sentences.

        x: (N, D), the input of every token; or (U, D), distinct inputs, with index (N,) of each token's input.
        dropout: (B, H), the mask z of every sentence. Returns h: (N, H).
        """
        arguments = x, self.input, self.carry, self.state, self.bias, index, dropout, packing, self.backward
        return cast(Tensor, _HighwayLstm.apply(*arguments))  # type: ignore[no-untyped-call]


class AlternatingLstm(nn.Module):
    """Stack of highway LSTM layers in alternating directions, starting forward."""

    def __init__(self, *, n_in: int, n_hidden: int, n_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.n_hidden, self.dropout = n_hidden, dropout
        self.layers = nn.ModuleList(
            HighwayLstmLayer(n_in=n_hidden if k else n_in, n_hidden=n_hidden, backward=k % 2 == 1)
            for k in range(n_layers)
        )

    def forward(self, x: Tensor, index: Tensor | None, packing: Packing) -> Tensor:
        """x: (N, D), or (U, D) with index (N,), as for a layer. Returns h of the last layer, (N, H)."""
        for layer in self.layers:
            keep = None
            if self.training and self.dropout:
                keep = functional.dropout(x.new_ones(len(packing.lengths), self.n_hidden), self.dropout)  # (B, H)
            x, index = layer(x, index, packing, keep), None
        return x


class _HighwayLstm(torch.autograd.Function):
    """Forward pass of a layer, with a backward pass that computes each weight gradient as one product over all steps.

    A step of a packed batch is a prefix of the one before it. Forward in time, sentences leave at the end of the
    prefix; backward, they enter there with a zero state, so that one loop serves both directions.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w: Tensor,
        v: Tensor,
        u: Tensor,
        b: Tensor,
        index: Tensor | None,
        dropout: Tensor | None,
        packing: Packing,
        backward: bool,
    ) -> Tensor:
        size, steps = u.shape[0], packing.steps()
        gates, carry = torch.addmm(b, x, w), x @ v  # (N or U, 5H) and (N or U, H)
        if index is not None:
            gates, carry = gates[index], carry[index]
        # tanh(a) = 2 sigmoid(2a) - 1: with the block of j doubled, one fused sigmoid computes all gates
        from_state = u.clone()
        gates[:, 2 * size : 3 * size] *= 2
        from_state[:, 2 * size : 3 * size] *= 2
        cells, outputs = torch.empty_like(carry), torch.empty_like(carry)
        h, c = carry.new_zeros(steps[0][1], size), carry.new_zeros(steps[0][1], size)
        for start, stop in reversed(steps) if backward else steps:
            n = stop - start
            gate = gates[start:stop].addmm_(h[:n], from_state).sigmoid_()  # (n, 5H)
            i, f, s, o, r = gate.chunk(5, dim=1)  # s = (j + 1) / 2
            c[:n].mul_(f).addcmul_(i, s, value=2).sub_(i)  # f c' + i (2s - 1)
            cells[start:stop] = c[:n]
            y = torch.add(c[:n], c[:n]).sigmoid_().mul_(o)
            y.add_(y).sub_(o)  # o tanh(c)
            out = torch.lerp(carry[start:stop], y, r, out=outputs[start:stop])
            if dropout is not None:
                out.mul_(dropout[:n])
            h[:n] = out
        ctx.save_for_backward(x, w, v, u, index, dropout, gates, carry, cells, outputs)
        ctx.packing, ctx.backward_in_time = packing, backward
        return outputs

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, w, v, u, index, dropout, gates, carry, cells, outputs = ctx.saved_tensors
        size, steps = u.shape[0], ctx.packing.steps()
        rows, previous = _neighbors(ctx.packing, ctx.backward_in_time)
        i, f, s, o, r = gates.chunk(5, dim=1)  # (N, H) each
        j, tanh_c = 2 * s - 1, torch.tanh(cells)
        before = torch.zeros_like(cells).index_copy_(0, rows, cells[previous])  # c'
        # Terms independent of later steps, for all steps at once: how much of the gradient of the cell goes
        # into i, f and j, and how much of that of h into o, r and the cell
        grad_gates = torch.empty_like(gates)
        into_i, into_f, into_j, into_o, into_r = grad_gates.chunk(5, dim=1)
        torch.mul(i, 1 - i, out=into_i).mul_(j)
        torch.mul(f, 1 - f, out=into_f).mul_(before)
        torch.mul(j, j, out=into_j).neg_().add_(1).mul_(i)
        torch.mul(o, 1 - o, out=into_o).mul_(r).mul_(tanh_c)
        torch.mul(r, 1 - r, out=into_r).mul_(o * tanh_c - carry)
        into_cell = (1 - tanh_c.square()).mul_(o).mul_(r)  # (N, H)
        dm = grad_output.clone()  # (N, H)
        dh, dc = dm.new_zeros(steps[0][1], size), dm.new_zeros(steps[0][1], size)
        to_state = u.t().contiguous()
        for start, stop in steps if ctx.backward_in_time else reversed(steps):
            n = stop - start
            d = dm[start:stop].add_(dh[:n])
            if dropout is not None:
                d.mul_(dropout[:n])
            gate = grad_gates[start:stop].view(n, 5, size)  # (n, 5, H)
            gate[:, 3:].mul_(d.unsqueeze(1))
            cell = dc[:n].addcmul_(d, into_cell[start:stop])
            gate[:, :3].mul_(cell.unsqueeze(1))
            cell.mul_(f[start:stop])
            torch.mm(grad_gates[start:stop], to_state, out=dh[:n])
        grad_u = outputs[previous].t() @ grad_gates[rows]
        grad_b = grad_gates.sum(0)
        grad_carry = dm.mul_(1 - r)
        if index is not None:
            grad_gates = grad_gates.new_zeros(len(x), 5 * size).index_add_(0, index, grad_gates)
            grad_carry = grad_carry.new_zeros(len(x), size).index_add_(0, index, grad_carry)
        grad_x = torch.addmm(grad_gates @ w.t(), grad_carry, v.t()) if ctx.needs_input_grad[0] else None
        return grad_x, x.t() @ grad_gates, x.t() @ grad_carry, grad_u, grad_b, None, None, None, None


def _neighbors(packing: Packing, backward: bool) -> tuple[Tensor, Tensor]:
    """Rows that have a predecessor in reading order, and the rows of these predecessors."""
    later = torch.arange(packing.offsets[1], packing.n_tokens, device=packing.time.device)
    offset = torch.tensor(packing.offsets, device=packing.time.device)
    earlier = offset[packing.time[later] - 1] + packing.sentence[later]
    return (earlier, later) if backward else (later, earlier)
