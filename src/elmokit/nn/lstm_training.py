"""The LSTM's run with gradients: autograd through a Python loop, done by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from elmokit.config import LstmConfig
from elmokit.nn.cell import activate_, cell_step
from elmokit.nn.matmul import LARGEST_STEP, repeated, rounded, with_spare_rows
from elmokit.nn.packing import Packing

aten = torch.ops.aten

# Gates are kept in blocks of this many numbers, 16 MB. Larger ones the allocator takes from the system and gives back
# at once, so that every step of training would pay for new pages; and a block is still in the cache when its gradients
# are added up.
BLOCK = 4 * 1024 * 1024


class LstmFunction(torch.autograd.Function):
    """One layer over packed sentences; weights get their gradients from whole blocks of steps.

    Of N tokens in B sentences, "before" a token stands its sentence's token one step earlier, or the state from which
    the sentence starts. A matrix of all B + N has that state as its first rows.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, u: Tensor, b: Tensor, p: Tensor | None, output: Tensor, cell: Tensor,
        index: Tensor | None, packing: Packing, config: LstmConfig,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """As `LstmLayer.forward`; state: (B, D) and (B, C). Returns m: (N, D), and c after each sentence: (B, C)."""
        n_sentences, blocks = len(output), list(packing.blocks(max(1, BLOCK // (4 * config.dim))))
        from_input, from_state = repeated(w, b), repeated(u)
        table = None if index is None else from_input(x)  # (U, 4C): each distinct word once
        cells = x.new_empty(n_sentences + packing.n_tokens, config.dim)  # c after each token
        cells[:n_sentences] = cell
        m = x.new_empty(packing.n_tokens, config.projection_dim)
        before, before_row = with_spare_rows(output), 0
        kept = []
        for steps in blocks:
            begin, end = steps[0][0], steps[-1][1]
            gates = from_input(x[begin:end]) if table is None else table[index[begin:end]]  # type: ignore[index]
            for start, stop in steps:
                n = stop - start
                step, c = gates[start - begin : stop - begin], cells[n_sentences + start : n_sentences + stop]
                step += from_state(before[: rounded(n)])[:n]
                c.copy_(cells[before_row : before_row + n])
                hidden = cell_step(activate_(step), c, config.cell_clip)
                y = m[start:stop]
                if p is None:
                    y.copy_(hidden)
                else:
                    torch.mm(hidden, p, out=y)
                    if config.proj_clip is not None:
                        y.clamp_(-config.proj_clip, config.proj_clip)
                before[:n], before_row = y, n_sentences + start
            kept.append(gates)
        ctx.save_for_backward(x, w, u, p, output, index, cells, m, *kept)
        ctx.packing, ctx.config, ctx.blocks = packing, config, blocks
        return m, cells[n_sentences + packing.last()]

    @staticmethod
    def backward(ctx: Any, grad_m: Tensor, grad_c: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Gradients of m and of the last c to those of all that has any."""
        x, w, u, p, output, index, cells, m, *kept = ctx.saved_tensors
        packing, config = ctx.packing, ctx.config
        n_sentences = len(output)
        outputs = torch.cat((output, m))  # (B + N, D)
        before = _rows_before(packing)  # (N,) of `outputs` and `cells`
        grad_m = with_spare_rows(grad_m)
        dc = grad_c.clone()  # (B, C) gradient of c, handed backwards in time
        dh = torch.zeros_like(output)  # (B, D) gradient of m through the next step
        # Of U, and of W beside it if that does not come from the table; transposed, which torch adds to faster
        grad_uw = w.new_zeros(w.shape[1], len(u) if index is not None else len(u) + len(w))
        grad_b = w.new_zeros(w.shape[1])
        grad_p = None if p is None else torch.zeros_like(p)
        grad_table = None if index is None else w.new_zeros(len(x), w.shape[1])  # (U, 4C)
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        to_state, to_hidden = repeated(u.t()), None if p is None else repeated(p.t())
        scratch = w.new_empty(max(map(len, kept)) + LARGEST_STEP, w.shape[1])  # a block's gradients, with spare rows
        for steps, gates in zip(reversed(ctx.blocks), reversed(kept), strict=True):
            begin, end = steps[0][0], steps[-1][1]
            c = cells[n_sentences + begin : n_sentences + end]
            tanh_c = (2 * c).sigmoid_().mul_(2).sub_(1)
            i, f, o, s = gates.chunk(4, dim=1)  # s = (j + 1) / 2
            # First what each gate's gradient is multiplied with, for all steps of the block at once ...
            grad = scratch[: end - begin]
            gi, gf, go, gj = grad.chunk(4, dim=1)
            torch.mul(s, 2, out=gi).sub_(1)
            gf.copy_(cells[before[begin:end]])
            go.copy_(tanh_c)
            torch.mul(i, 4, out=gj)  # 1 - j^2 = 4 s (1 - s): with this, all four are derivatives of a sigmoid
            aten.sigmoid_backward(grad, gates, grad_input=grad)
            through = aten.tanh_backward(o, tanh_c)  # of o tanh(c) by c
            # ... then the gradients themselves, step by step
            for start, stop in reversed(steps):
                n, rows = stop - start, slice(start - begin, stop - begin)
                dm = grad_m[start:stop].add_(dh[:n])
                if p is not None:
                    _stop_at_clip(dm, m[start:stop], config.proj_clip)
                # (n, C) gradient of o tanh(c)
                dy = dm if to_hidden is None else to_hidden(grad_m[start : start + rounded(n)])[:n]
                d = dc[:n].addcmul_(dy, through[rows])
                _stop_at_clip(d, c[rows], config.cell_clip)
                for part, by in zip(grad[rows].chunk(4, dim=1), (d, d, dy, d), strict=True):
                    part.mul_(by)
                d.mul_(f[rows])
                dh[:n] = to_state(scratch[rows.start : rows.start + rounded(n)])[:n]
            if grad_p is not None:
                grad_p.addmm_(tanh_c.mul_(o).t(), grad_m[begin:end])
            if grad_table is not None:
                grad_uw.addmm_(grad.t(), outputs[before[begin:end]])
                grad_table.index_add_(0, index[begin:end], grad)
                continue
            grad_uw.addmm_(grad.t(), torch.cat((outputs[before[begin:end]], x[begin:end]), dim=1))
            grad_b.add_(grad.sum(0))
            if grad_x is not None:
                torch.mm(grad, w.t(), out=grad_x[begin:end])
        grad_u, grad_w = grad_uw.t().contiguous().split((len(u), grad_uw.shape[1] - len(u)))
        if grad_table is not None:
            grad_w = torch.mm(grad_table.t(), x).t().contiguous()
            torch.sum(grad_table, 0, out=grad_b)
            if grad_x is not None:
                torch.mm(grad_table, w.t(), out=grad_x)
        return grad_x, grad_w, grad_u, grad_b, grad_p, dh, dc, None, None, None


def _rows_before(packing: Packing) -> Tensor:
    """(N,) where the token before each token stands in a matrix of all starting states and all tokens."""
    n_sentences = len(packing.lengths)
    first = torch.tensor((0, *(n_sentences + offset for offset in packing.offsets[:-2])), device=packing.time.device)
    return first[packing.time] + packing.sentence


def _stop_at_clip(gradient: Tensor, value: Tensor, clip: float | None) -> None:
    """No gradient goes through a clipped value; in place."""
    if clip is not None:
        aten.hardtanh_backward(gradient, value, -clip, clip, grad_input=gradient)
