"""The LSTM with projection and two clips that no library has: the most used, and most tested, file of the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from elmokit.config import LstmConfig
from elmokit.nn.joined import JoinedGates
from elmokit.nn.matmul import Matmul, repeated, rounded
from elmokit.nn.packing import Packing

aten = torch.ops.aten

# Without gradients the input products are made for this many numbers at a time: enough rows for the matrix product to
# be fast, few enough that a sentence of any length fits into memory.
INPUT_BLOCK = 8 * 1024 * 1024


@dataclass(frozen=True)
class LstmState:
    """What one layer hands from one token to the next, for B sentences."""

    output: Tensor  # (B, D) the projected output m, before the residual connection
    cell: Tensor  # (B, C)

    def expand(self, n: int) -> LstmState:
        """One sentence's state for n of them."""
        return LstmState(self.output.expand(n, -1), self.cell.expand(n, -1))


class LstmLayer(nn.Module):
    """One direction of one layer (Sak et al. 2014, with the clips of the published biLM).

        i, f, o = sigmoid(x W + m' U + b);  j = tanh(x W + m' U + b)
        c = clip(f c' + i j, cell_clip);    m = clip((o tanh(c)) P, proj_clip)

    The four blocks of W, U and b stand in the order i, f, o, j, so that the three sigmoids are one call. b holds the
    constant 1 that the published code adds to the forget gate.
    """

    def __init__(self, *, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.input: nn.Module = Matmul(n_in=config.projection_dim, n_out=4 * config.dim)
        self.state: nn.Module = Matmul(n_in=config.projection_dim, n_out=4 * config.dim)
        self.bias = nn.Parameter(torch.empty(4 * config.dim))
        self.projection: nn.Module | None = None
        if config.has_projection:
            self.projection = Matmul(n_in=config.dim, n_out=config.projection_dim)
        self.joined: JoinedGates | None = None  # made by `join_`

    def join_(self) -> None:
        """Put W and U, which must be plain, into one: the fastest form for small weights and an input a token."""
        self.joined = JoinedGates(cast(Matmul, self.input), cast(Matmul, self.state), self.bias)
        del self.input, self.state

    def zero_state(self, n: int) -> LstmState:
        """The state before the first token of n sentences."""
        zeros = self.bias.new_zeros
        return LstmState(zeros(n, self.config.projection_dim), zeros(n, self.config.dim))

    def forward(self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState) -> tuple[Tensor, LstmState]:
        """Run over packed sentences.

        x: (N, D) the input of every token; or (U, D) of every distinct word, with index (N,) saying which is where.
        Returns m: (N, D), and the state after every sentence's last token.
        """
        with torch.autocast(x.device.type, enabled=False):  # the recurrence needs the precision of its weights
            x = x.to(self.bias.dtype)
            needs_gradient = (t.requires_grad for t in (x, state.output, state.cell, *self.parameters()))
            if torch.is_grad_enabled() and any(needs_gradient):
                return self._forward_with_gradient(x, index, packing, state)
            if self.joined is not None:
                return self._forward_joined(self.joined, x if index is None else x[index], packing, state)
            return self._forward(x, index, packing, state)

    def _forward(self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState) -> tuple[Tensor, LstmState]:
        m = x.new_empty(packing.n_tokens, self.config.projection_dim)
        cell = state.cell.clone()
        before, rows = _with_spare_rows(state.output), cast(Matmul, self.state).rows
        for (start, stop), gates_in in zip(packing.steps(), self._inputs(x, index, packing), strict=True):
            n = stop - start
            gates: Tensor = self.state(before[: rows(n)])[:n]  # (n, 4C)
            gates += gates_in
            hidden = cell_step(activate_(gates), cell[:n], self.config.cell_clip)  # (n, C)
            before[:n] = self._project(hidden, out=m[start:stop])
        return m, LstmState(m[packing.last()], cell)

    def _forward_joined(
        self, joined: JoinedGates, x: Tensor, packing: Packing, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        m = torch.empty_like(x)
        cell = state.cell.clone()
        both = _with_spare_rows(torch.cat((torch.zeros_like(state.output), state.output), dim=1))  # x beside m'
        own, before = both.chunk(2, dim=1)
        for start, stop in packing.steps():
            n = stop - start
            own[:n] = x[start:stop]
            gates = joined(both[: joined.rows(n)], joined.bias)[:n]  # (n, 4C)
            hidden = cell_step(gates, cell[:n], self.config.cell_clip)  # (n, C)
            before[:n] = self._project(hidden, out=m[start:stop])
        return m, LstmState(m[packing.last()], cell)

    def _project(self, hidden: Tensor, out: Tensor) -> Tensor:
        """(n, C) to (n, D), which is written to `out`."""
        if self.projection is None:
            return out.copy_(hidden)
        if isinstance(self.projection, Matmul):
            torch.mm(hidden, self.projection.weight, out=out)
        else:
            out.copy_(self.projection(hidden))
        clip = self.config.proj_clip
        return out if clip is None else out.clamp_(-clip, clip)

    def _inputs(self, x: Tensor, index: Tensor | None, packing: Packing) -> Iterator[Tensor]:
        """x W + b of every step, (n, 4C), made for as many steps at once as the block size allows."""
        steps = packing.steps()
        rows_per_block = max(1, INPUT_BLOCK // (4 * self.config.dim))
        if index is not None and len(x) <= min(packing.n_tokens, 4 * rows_per_block):
            table = self.input(x, self.bias)  # (U, 4C): each distinct word once
            buffer = table.new_empty(steps[0][1], table.shape[1])
            for start, stop in steps:
                yield torch.index_select(table, 0, index[start:stop], out=buffer[: stop - start])
            return
        first = 0
        while first < len(steps):
            last = first + 1
            begin = steps[first][0]
            while last < len(steps) and steps[last][1] - begin <= rows_per_block:
                last += 1
            end = steps[last - 1][1]
            block = self.input(x[begin:end] if index is None else x[index[begin:end]], self.bias)
            for start, stop in steps[first:last]:
                yield block[start - begin : stop - begin]
            first = last

    def _forward_with_gradient(
        self, x: Tensor, index: Tensor | None, packing: Packing, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        projection = None if self.projection is None else self.projection.weight
        m, cell = _LstmFunction.apply(  # type: ignore[no-untyped-call]
            x, self.input.weight, self.state.weight, self.bias, projection, state.output, state.cell,
            index, packing, self.config,
        )  # fmt: skip
        return m, LstmState(m[packing.last()], cell)


def _with_spare_rows(matrix: Tensor) -> Tensor:
    """A copy with so many rows of zeros at its end that every matrix product finds the number of rows it likes."""
    rows = matrix.new_zeros(rounded(len(matrix)), matrix.shape[1])
    rows[: len(matrix)] = matrix
    return rows


def activate_(gates: Tensor) -> Tensor:
    """Pre-activations (..., 4C) to activations, in place.

    tanh(x) = 2 sigmoid(2x) - 1, because torch's sigmoid is several times faster than its tanh: one call does all four
    gates, and the block of j is left as (j + 1) / 2. Doubling is by adding: a Python number costs torch more.
    """
    j = gates.chunk(4, dim=-1)[3]
    j.add_(j)
    return gates.sigmoid_()


def cell_step(gates: Tensor, cell: Tensor, clip: float | None) -> Tensor:
    """One step: activations (..., 4C), and c' (..., C) to c in place. Returns o tanh(c), (..., C)."""
    i, f, o, j = gates.chunk(4, dim=-1)
    cell.mul_(f).addcmul_(i, j, value=2).sub_(i)  # f c' + i (2j - 1)
    if clip is not None:
        cell.clamp_(-clip, clip)
    hidden = torch.add(cell, cell).sigmoid_().mul_(o)
    return hidden.add_(hidden).sub_(o)  # o (2 sigmoid(2c) - 1)


def _stop_at_clip(gradient: Tensor, value: Tensor, clip: float | None) -> None:
    """No gradient goes through a clipped value; in place."""
    if clip is not None:
        aten.hardtanh_backward(gradient, value, -clip, clip, grad_input=gradient)


class _LstmFunction(torch.autograd.Function):
    """The same run with a backward pass that collects the gradients of all steps into one matrix product per weight."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, u: Tensor, b: Tensor, p: Tensor | None, output: Tensor, cell: Tensor,
        index: Tensor | None, packing: Packing, config: LstmConfig,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        gates = torch.addmm(b, x, w)  # (N or U, 4C)
        if index is not None:
            gates = gates[index]
        n_tokens, size = packing.n_tokens, config.dim
        cells = x.new_empty(n_tokens, size)  # c after each token
        m = x.new_empty(n_tokens, config.projection_dim)
        c, h = cell.clone(), output
        from_state = repeated(u)
        for start, stop in packing.steps():
            n = stop - start
            step = gates[start:stop]
            step += from_state(h[:n])
            hidden = cell_step(activate_(step), c[:n], config.cell_clip)
            cells[start:stop] = c[:n]
            h = hidden if p is None else torch.mm(hidden, p, out=m[start:stop])
            if p is None:
                m[start:stop] = h
            elif config.proj_clip is not None:
                h.clamp_(-config.proj_clip, config.proj_clip)
        ctx.save_for_backward(x, w, u, p, output, cell, index, gates, cells, m)
        ctx.packing, ctx.config = packing, config
        return m, c

    @staticmethod
    def backward(ctx: Any, grad_m: Tensor, grad_c: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, w, u, p, output, cell, index, gates, cells, m = ctx.saved_tensors
        packing, config = ctx.packing, ctx.config
        size, steps = config.dim, ctx.packing.steps()
        grad_gates = torch.empty_like(gates)
        grad_m = grad_m.clone()
        tanh_c = (2 * cells).sigmoid_().mul_(2).sub_(1)  # (N, C)
        dc = grad_c.clone()  # (B, C) gradient of c, handed backwards in time
        dh = torch.zeros_like(output)  # (B, D) gradient of m through the next step
        to_state, to_hidden = repeated(u.t()), None if p is None else repeated(p.t())
        for t in range(len(steps) - 1, -1, -1):
            start, stop = steps[t]
            n = stop - start
            step, grad_step = gates[start:stop], grad_gates[start:stop]
            i, f, o, s = step.chunk(4, dim=1)  # s = (j + 1) / 2
            gi, gf, go, gj = grad_step.chunk(4, dim=1)
            dm = grad_m[start:stop].add_(dh[:n])
            if p is not None:
                _stop_at_clip(dm, m[start:stop], config.proj_clip)
            dy = dm if to_hidden is None else to_hidden(dm)  # (n, C) gradient of o tanh(c)
            tc = tanh_c[start:stop]
            d = dc[:n]
            torch.mul(dy, tc, out=go)
            d += aten.tanh_backward(dy * o, tc)
            _stop_at_clip(d, cells[start:stop], config.cell_clip)
            before = cell[:n] if t == 0 else cells[steps[t - 1][0] : steps[t - 1][0] + n]
            torch.mul(d, before, out=gf)
            torch.mul(d, s, out=gi).mul_(2).sub_(d)  # d j
            torch.mul(d, i, out=gj).mul_(4)  # 1 - j^2 = 4 s (1 - s): with this, all four are derivatives of a sigmoid
            aten.sigmoid_backward(grad_step, step, grad_input=grad_step)
            d.mul_(f)
            dh[:n] = to_state(grad_step)
        grad_u = output[: steps[0][1]].t() @ grad_gates[: steps[0][1]]
        if len(steps) > 1:
            # row of the same sentence one step earlier: steps shrink, so it stands n_before rows above
            rows = torch.arange(steps[1][0], packing.n_tokens, device=x.device)
            widths = torch.tensor([stop - start for start, stop in steps], device=x.device)
            previous = rows - widths[packing.time[steps[1][0] :] - 1]
            grad_u.addmm_(m[previous].t(), grad_gates[steps[1][0] :])
        grad_p = None
        if p is not None:
            hidden = tanh_c.mul_(gates[:, 2 * size : 3 * size])  # (N, C)
            grad_p = hidden.t() @ grad_m
        if index is not None:
            per_word = grad_gates.new_zeros(len(x), 4 * size)
            grad_in = per_word.index_add_(0, index, grad_gates)
        else:
            grad_in = grad_gates
        grad_x = grad_in @ w.t() if ctx.needs_input_grad[0] else None
        grad_w = x.t() @ grad_in
        return grad_x, grad_w, grad_u, grad_in.sum(0), grad_p, dh, dc, None, None, None
