"""LSTM with a hand-written backward pass: autograd through a Python loop would take several times as long."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from elmokit.config import LstmConfig
from elmokit.nn.cpu import operators
from elmokit.nn.cpu.lstm_cell import activate_, cell_step
from elmokit.nn.cpu.products import (
    LARGEST_ROW_STEP,
    onednn_matmul,
    prepacked_linear,
    round_rows,
    transposed_matmul,
    with_spare_rows,
)
from elmokit.nn.cpu.step_inputs import step_inputs
from elmokit.nn.packing import Packing

# Weight gradients are computed from blocks of this many gate gradients, 16 MB. Larger buffers would be mapped and
# unmapped by the allocator every time, so that every training step would pay for new pages; and a block is still in the
# cache when its products are added up.
GATE_NUMBERS_PER_BLOCK = 4 * 1024 * 1024


class LstmFunction(torch.autograd.Function):
    """One layer over packed sentences; weight gradients are computed from whole blocks of steps.

    The predecessor of a token is the token before it in its sentence, or the sentence's initial state. Matrices of
    B + N rows hold the initial states of the B sentences, then the N packed tokens.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w: Tensor,
        u: Tensor,
        b: Tensor,
        p: Tensor | None,
        output: Tensor,
        cell: Tensor,
        index: Tensor | None,
        packing: Packing,
        same_start: bool,
        config: LstmConfig,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """As `FastLstmLayer.run`; output (B, D), cell (B, C): initial state; dtype: operand type of all products.

        Returns m: (N, D), and c after each sentence: (B, C).
        """
        n_sentences, n_rows = len(output), len(output) + packing.n_tokens
        cells = x.new_empty(n_rows, config.dim)  # c after each token
        outputs = x.new_empty(n_rows + LARGEST_ROW_STEP, config.projection_dim)  # and m, with spare rows
        cells[:n_sentences], outputs[:n_sentences] = cell, output
        from_state, row = prepacked_linear(u, dtype=dtype), 0  # row: first predecessor of the step
        from_hidden = None if p is None else prepacked_linear(p, dtype=dtype)
        inputs = step_inputs(prepacked_linear(w, b, dtype), x, index, packing, len(b))
        kept = []
        for (start, stop), gates_in in zip(packing.steps(), inputs, strict=True):
            if same_start and start == 0:
                start = stop - 1
            n, rows = stop - start, slice(n_sentences + start, n_sentences + stop)
            gates = from_state(outputs[row : row + round_rows(n)])[:n]  # (n, 4C)
            gates = gates.to(x.dtype).add_(gates_in[-n:])
            c, y = cells[rows].copy_(cells[row : row + n]), outputs[rows]
            hidden = cell_step(activate_(gates), c, config.cell_clip)
            y.copy_(hidden if from_hidden is None else from_hidden(hidden))
            if p is not None and config.proj_clip is not None:
                y.clamp_(-config.proj_clip, config.proj_clip)
            kept.append(gates)
            row = rows.start
            if same_start and stop == n_sentences:  # computed for the last sentence only: copy to all others
                cells[stop : stop + start], outputs[stop : stop + start] = c, y
                row = stop
        outputs = outputs[:n_rows]
        ctx.save_for_backward(x, w, u, p, index, cells, outputs, *kept)
        ctx.packing, ctx.same_start, ctx.config, ctx.dtype = packing, same_start, config, dtype
        return outputs[n_sentences:], cells[n_sentences + packing.last()]

    @staticmethod
    def backward(ctx: Any, grad_m: Tensor, grad_c: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Gradients of x, the weights and the initial state, from those of m and of the last c."""
        x, w, u, p, index, cells, outputs, *kept = ctx.saved_tensors
        packing, same_start, config, dtype = ctx.packing, ctx.same_start, ctx.config, ctx.dtype
        n_sentences, m = len(packing.lengths), outputs[len(packing.lengths) :]
        # Rows of the predecessors in `outputs` and `cells`: the first of each step; and that of every token, (N,)
        starts = [0, *(n_sentences + offset for offset in packing.offsets[:-2])]
        before = torch.tensor(starts, device=x.device)[packing.time] + packing.sentence
        grad_m = with_spare_rows(grad_m)
        dc = grad_c.clone()  # (B, C) gradient of c, handed backwards in time
        dh = torch.zeros_like(outputs[:n_sentences])  # (B, D) gradient of m through the next step
        # Gradient of U and, unless W's is computed from `grad_table`, of W below it
        grad_uw = w.new_zeros(len(u) if index is not None else len(u) + len(w), w.shape[1])
        grad_b = w.new_zeros(w.shape[1])
        grad_p = None if p is None else torch.zeros_like(p)
        grad_table = None if index is None else w.new_zeros(round_rows(len(x)), w.shape[1])  # (U, 4C)
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        to_state = prepacked_linear(u.t(), dtype=dtype)
        to_hidden = None if p is None else prepacked_linear(p.t(), dtype=dtype)
        blocks = list(packing.blocks(max(1, GATE_NUMBERS_PER_BLOCK // w.shape[1])))
        if same_start:
            blocks[0][0] = (n_sentences - 1, n_sentences)
        n_rows = max(steps[-1][1] - steps[0][0] for steps in blocks)
        scratch = w.new_empty(n_rows + LARGEST_ROW_STEP, w.shape[1])  # a block's gradients, with spare rows
        rounded = scratch if dtype == scratch.dtype else torch.empty_like(scratch, dtype=dtype)  # in `dtype`
        for steps in reversed(blocks):
            begin, end = steps[0][0], steps[-1][1]
            grad, hidden = scratch[: end - begin], cells.new_empty(end - begin, config.dim)
            for start, stop in reversed(steps):
                n, rows = stop - start, slice(start - begin, stop - begin)
                c, gates, row = cells[n_sentences + start : n_sentences + stop], kept.pop(), starts.pop()
                i, f, o, s = gates.chunk(4, dim=1)
                if same_start and stop == n_sentences:
                    grad_m[start:stop], dh, dc = grad_m[:stop].sum(0), dh.sum(0, keepdim=True), dc.sum(0, keepdim=True)
                tanh_c = torch.add(c, c).sigmoid_().mul_(2).sub_(1)
                dm = grad_m[start:stop].add_(dh[:n])
                if p is not None:
                    torch.mul(o, tanh_c, out=hidden[rows])
                    _stop_at_clip(dm, m[start:stop], config.proj_clip)
                # (n, C) gradient of o tanh(c)
                dy = dm if to_hidden is None else to_hidden(grad_m[start : start + round_rows(n)])[:n].to(dm.dtype)
                d = dc[:n].addcmul_(dy, operators.tanh_backward(o, tanh_c))
                _stop_at_clip(d, c, config.cell_clip)
                gi, gf, go, gj = grad[rows].chunk(4, dim=1)
                torch.mul(s, d, out=gi).mul_(2).sub_(d)  # d j, with s = (j + 1) / 2
                torch.mul(cells[row : row + n], d, out=gf)
                torch.mul(tanh_c, dy, out=go)
                torch.mul(i, d, out=gj).mul_(4)  # 1 - j^2 = 4 s (1 - s): so all four are derivatives of a sigmoid
                operators.sigmoid_backward(grad[rows], gates, grad_input=grad[rows])
                d.mul_(f)
                if rounded is not scratch:
                    rounded[rows] = grad[rows]
                dh[:n] = to_state(rounded[rows.start : rows.start + round_rows(n)])[:n]
            if grad_p is not None:
                grad_p += transposed_matmul(hidden, grad_m[begin:end], dtype)
            if grad_table is not None:
                grad_table.index_add_(0, index[begin:end], grad)
            else:
                grad_b.add_(grad.sum(0))
            read = outputs[before[begin:end]]
            grad = rounded[: round_rows(end - begin)]
            grad[end - begin :] = 0
            both = read if index is not None else torch.cat((read, x[begin:end]), dim=1)
            grad_uw += transposed_matmul(both, grad, dtype)
            if grad_x is not None and index is None:
                grad_x[begin:end] = onednn_matmul(grad, w.t(), dtype)[: end - begin]
        grad_u, grad_w = grad_uw.split((len(u), len(grad_uw) - len(u)))
        if grad_table is not None:
            grad_w = transposed_matmul(x, grad_table, dtype).to(w.dtype)
            torch.sum(grad_table, 0, out=grad_b)
            if grad_x is not None:
                grad_x = onednn_matmul(grad_table, w.t(), dtype)[: len(x)].to(x.dtype)
        elif same_start and grad_x is not None:
            grad_x[: n_sentences - 1] = 0
        of_state = (None, None) if same_start else (dh, dc)
        return grad_x, grad_w, grad_u, grad_b, grad_p, *of_state, None, None, None, None, None


def _stop_at_clip(gradient: Tensor, value: Tensor, clip: float | None) -> None:
    """Zero the gradient of clipped values, in place."""
    if clip is not None:
        operators.hardtanh_backward(gradient, value, -clip, clip, grad_input=gradient)
