"""Bidirectional LSTM encoder of the task networks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class BiLstm(nn.Module):
    """Stacked bidirectional LSTM over padded batches.

    Padding does not affect the output: the backward direction starts at the last token of every sequence. Reversing
    the sequences of a padded batch in place is the fastest form on a CPU: training with torch's packed sequences
    takes 1.2 to 2.5 times as long, because their backward pass runs step by step.
    """

    def __init__(self, *, n_in: int, n_hidden: int, n_layers: int = 1, dropout: float = 0.0) -> None:
        """dropout: probability between layers."""
        super().__init__()
        sizes = [n_in] + [2 * n_hidden] * (n_layers - 1)
        self.forward_layers = nn.ModuleList(nn.LSTM(size, n_hidden) for size in sizes)
        self.backward_layers = nn.ModuleList(nn.LSTM(size, n_hidden) for size in sizes)
        self.dropout = dropout
        self.output_dim = 2 * n_hidden
        for name, parameter in self.named_parameters():
            _initialize(name.rpartition(".")[2], parameter)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x: (B, T, n_in), mask: (B, T), true at tokens. Returns (B, T, 2H), zero at padding."""
        x = x.transpose(0, 1)  # (T, B, n_in)
        mirror = _reversed_rows(mask)
        for k, (forward, backward) in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            if k and self.dropout:
                x = functional.dropout(x, self.dropout, self.training)
            x = torch.cat((forward(x)[0], _permute(backward(_permute(x, mirror))[0], mirror)), dim=2)  # (T, B, 2H)
        return x.transpose(0, 1) * mask.unsqueeze(-1)


def _reversed_rows(mask: Tensor) -> Tensor:
    """Row indices (T * B,) that reverse every sequence in place; padding keeps its position."""
    n_sequences, n_steps = mask.shape
    lengths = mask.sum(dim=1)  # (B,)
    time = torch.arange(n_steps, device=mask.device).unsqueeze(1)  # (T, 1)
    mirrored = torch.where(time < lengths, lengths - 1 - time, time)  # (T, B)
    return (mirrored * n_sequences + torch.arange(n_sequences, device=mask.device)).flatten()


def _permute(x: Tensor, rows: Tensor) -> Tensor:
    """Permute the T * B rows of (T, B, n)."""
    return x.reshape(len(rows), -1).index_select(0, rows).view(x.shape)


def _initialize(name: str, parameter: nn.Parameter) -> None:
    """Initialize: orthogonal recurrent blocks, uniform input blocks, forget-gate bias of 1."""
    if name.startswith("bias"):
        nn.init.zeros_(parameter)
        if name == "bias_ih_l0":
            parameter.data.chunk(4)[1].fill_(1)  # blocks are i, f, g, o
        return
    for block in parameter.data.chunk(4):
        (nn.init.orthogonal_ if name == "weight_hh_l0" else nn.init.xavier_uniform_)(block)
