"""Recurrent state of the LSTMs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmokit.config import LstmConfig


@dataclass(frozen=True)
class LstmState:
    """State of one LSTM layer, for B sentences."""

    output: Tensor  # (B, D) the projected output m, before the residual connection
    cell: Tensor  # (B, C)


@dataclass(frozen=True)
class BiLMState:
    """State of all layers of both directions, one row per sentence."""

    forward: tuple[LstmState, ...]  # first layer first
    backward: tuple[LstmState, ...]

    @classmethod
    def zeros(cls, config: LstmConfig, n: int, *, like: Tensor) -> BiLMState:
        """The state before the first token of n sentences; device and dtype are those of `like`."""
        outputs, cells = (like.new_zeros(2 * config.n_layers, n, size) for size in (config.projection_dim, config.dim))
        return cls.from_tensors([tensor for pair in zip(outputs, cells, strict=True) for tensor in pair])

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor]) -> BiLMState:
        """The inverse of `tensors`."""
        states = tuple(LstmState(*pair) for pair in zip(tensors[::2], tensors[1::2], strict=True))
        return cls(states[: len(states) // 2], states[len(states) // 2 :])

    def tensors(self) -> list[Tensor]:
        """Output and cell of every forward layer, then of every backward layer."""
        return [tensor for state in (*self.forward, *self.backward) for tensor in (state.output, state.cell)]

    @property
    def n_rows(self) -> int:
        """B."""
        return len(self.forward[0].output)

    def rows(self, rows: Tensor) -> BiLMState:
        """The state of these sentences, in this order."""
        return self._map(lambda tensor: tensor[rows])

    def expand(self, n: int) -> BiLMState:
        """One sentence's state for n sentences, without a copy."""
        return self._map(lambda tensor: tensor.expand(n, -1))

    def pad(self, n: int) -> BiLMState:
        """The state with n rows at least; new rows are zero."""
        missing = n - self.n_rows
        if missing <= 0:
            return self
        return self._map(lambda tensor: torch.cat((tensor, tensor.new_zeros(missing, tensor.shape[1]))))

    def put(self, rows: Tensor, state: BiLMState) -> None:
        """Replace the state of these sentences, in place."""
        for own, new in zip(self.tensors(), state.tensors(), strict=True):
            own[rows] = new

    def _map(self, change: Callable[[Tensor], Tensor]) -> BiLMState:
        return self.from_tensors([change(tensor) for tensor in self.tensors()])
