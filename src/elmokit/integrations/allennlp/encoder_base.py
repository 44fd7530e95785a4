"""Base of recurrent encoders that carry their state from call to call, as `allennlp.modules.encoder_base`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from elmokit.errors import ConfigError
from elmokit.integrations.allennlp.util import get_lengths_from_binary_sequence_mask, sort_batch_by_length

States = tuple[Tensor, ...]  # each (layers, rows, size)


class _EncoderBase(nn.Module):
    """Base class that runs a recurrent module over sorted, packed sentences; if `stateful`, it keeps the state per row.

    Rows that a smaller batch does not use keep their state, new rows start from zero, and rows without any token are
    left out of the computation.
    """

    def __init__(self, stateful: bool = False) -> None:
        super().__init__()
        self.stateful = stateful
        self._states: States | None = None

    def sort_and_run_forward(
        self, module: Callable[..., Any], inputs: Tensor, mask: Tensor, hidden_state: Any = None
    ) -> tuple[Any, Any, Tensor]:
        """Call `module(packed sequence, initial state)` with the non-empty sentences, the longest first.

        inputs: (B, T, d); mask: (B, T); hidden_state: one tensor or a tuple of (layers, B, size), for encoders that
        are not stateful. Returns the module's output and final state, both sorted, and the indices that restore the
        order of the batch once empty sentences are appended.
        """
        n_valid = int(mask[:, 0].bool().sum()) if mask.shape[1] else 0
        lengths = get_lengths_from_binary_sequence_mask(mask)
        rows, lengths, restoration, order = sort_batch_by_length(inputs, lengths)
        packed = pack_padded_sequence(rows[:n_valid], lengths[:n_valid].tolist(), batch_first=True)
        if self.stateful:
            initial = self._get_initial_states(len(mask), n_valid, order)
        elif hidden_state is None or isinstance(hidden_state, Tensor):
            initial = None if hidden_state is None else _choose(hidden_state, order, n_valid)
        else:
            initial = [_choose(state, order, n_valid) for state in hidden_state]
        output, final = module(packed, initial)
        return output, final, restoration

    def _get_initial_states(self, batch_size: int, num_valid: int, sorting_indices: Tensor) -> Any:
        """Stored states of the first `num_valid` sorted rows: a tensor or a tuple of them, None before the first call.

        The kept states grow by zero rows if the batch is larger than any before.
        """
        if self._states is None:
            return None
        more = batch_size - self._states[0].shape[1]
        if more > 0:
            self._states = tuple(
                torch.cat((state, state.new_zeros(len(state), more, state.shape[2])), dim=1) for state in self._states
            )
        chosen = tuple(_choose(state[:, :batch_size], sorting_indices, num_valid) for state in self._states)
        return chosen[0] if len(chosen) == 1 else chosen

    def _update_states(self, final_states: Sequence[Tensor], restoration_indices: Tensor) -> None:
        """Store the final states of a batch; rows with an all-zero state were not read and keep their old state."""
        new = [state.index_select(1, restoration_indices).detach() for state in final_states]
        if self._states is not None:
            new = [_merge(old, state) for old, state in zip(self._states, new, strict=True)]
        self._states = tuple(new)

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Reset all states, or those of the rows where mask (rows,) is true."""
        if mask is None:
            self._states = None
            return
        if self._states is None:
            raise ConfigError("reset_states: expected a state to reset, found none; nothing was read yet")
        rows = self._states[0].shape[1]
        if len(mask) != rows:
            raise ValueError(f"mask: expected one value for each of {rows} rows, found {len(mask)}")
        keep = ~mask.bool().view(1, -1, 1)
        self._states = tuple((state * keep).detach() for state in self._states)


def _choose(state: Tensor, order: Tensor, n: int) -> Tensor:
    """(layers, B, size) to (layers, n, size), sorted."""
    return state.index_select(1, order)[:, :n].contiguous()


def _merge(old: Tensor, new: Tensor) -> Tensor:
    """(layers, R, size) with the rows that were read replaced; R is not smaller than the batch."""
    n = new.shape[1]
    read = (new[0].sum(dim=-1) != 0).view(1, -1, 1)  # (1, B, 1)
    return torch.cat((torch.where(read, new, old[:, :n].to(new)), old[:, n:].to(new)), dim=1)
