"""LSTMs of the biLM with AllenNLP's names: `forward_layer_0.input_linearity.weight` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from elmokit.config import LstmConfig
from elmokit.errors import ConfigError
from elmokit.integrations.allennlp.encoder_base import _EncoderBase
from elmokit.integrations.allennlp.pretrained import PathLike, read_lstms
from elmokit.integrations.allennlp.submodules import SubmoduleLists, Submodules
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.lstm import LstmLayer
from elmokit.nn.packing import Packing
from elmokit.nn.state import LstmState

State = tuple[Tensor, Tensor]  # output (1, B, D) and cell (1, B, C)


class LstmCellWithProjection(nn.Module):
    """One direction of one layer (Sak et al., 2014), with a clipped cell and a clipped projection.

    The parameters have AllenNLP's names, shapes and order of gates (i, f, j, o). The computation is that of
    `elmokit.nn`, with the parameters converted at every call, because old code changes them in place. If the hidden
    size equals the cell size there is no projection, as in the published trainer.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        cell_size: int,
        go_forward: bool = True,
        recurrent_dropout_probability: float = 0.0,
        memory_cell_clip_value: float | None = None,
        state_projection_clip_value: float | None = None,
    ) -> None:
        super().__init__()
        if recurrent_dropout_probability:
            raise ConfigError("recurrent_dropout_probability: expected 0, as in every published ELMo")
        if hidden_size > cell_size:
            raise ConfigError(f"hidden_size: expected at most cell_size = {cell_size}, found {hidden_size}")
        self.input_size, self.hidden_size, self.cell_size = input_size, hidden_size, cell_size
        self.go_forward = go_forward
        self.recurrent_dropout_probability = recurrent_dropout_probability
        self.memory_cell_clip_value = memory_cell_clip_value
        self.state_projection_clip_value = state_projection_clip_value
        self.input_linearity = nn.Linear(input_size, 4 * cell_size, bias=False)
        self.state_linearity = nn.Linear(hidden_size, 4 * cell_size, bias=True)
        self.state_projection = nn.Linear(cell_size, hidden_size, bias=False) if hidden_size < cell_size else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Block-orthogonal initialization with a forget-gate bias of 1."""
        if self.input_linearity.weight.is_meta:  # weights will be loaded
            return
        for linear in (self.input_linearity, self.state_linearity):
            for gate in linear.weight.data.chunk(4):
                nn.init.orthogonal_(gate)
        self.state_linearity.bias.data.zero_()
        self.state_linearity.bias.data[self.cell_size : 2 * self.cell_size] = 1.0

    def forward(
        self, inputs: Tensor, batch_lengths: Sequence[int] | Tensor, initial_state: State | None = None
    ) -> tuple[Tensor, State]:
        """inputs: (B, T, d), the longest sentence first; batch_lengths: (B,).

        Returns outputs (B, T, D), zero at padding, and the state after every sentence.
        """
        lengths = [int(length) for length in batch_lengths]
        packing = Packing.from_lengths(lengths, inputs.device)
        x = packing.pack(inputs)  # (N, d)
        x = x if self.go_forward else x[packing.reverse]
        if initial_state is None:
            output, cell = x.new_zeros(len(lengths), self.hidden_size), x.new_zeros(len(lengths), self.cell_size)
        else:
            output, cell = (state.squeeze(0).to(x) for state in initial_state)
        with torch.device("meta"):  # a fresh one for each call, because replicas of DataParallel run in threads
            layer = optimize_(LstmLayer(config=self._config()))
        arguments = (x, packing, LstmState(output, cell))
        m, end = functional_call(layer, self._rearranged(), arguments)
        m = m if self.go_forward else m[packing.reverse]
        return packing.pad(m, inputs.shape[1]), (end.output.unsqueeze(0), end.cell.unsqueeze(0))

    def _config(self) -> LstmConfig:
        return LstmConfig(
            dim=self.cell_size,
            projection_dim=self.hidden_size,
            n_layers=1,
            cell_clip=self.memory_cell_clip_value or None,
            proj_clip=self.state_projection_clip_value or None,
        )

    def _rearranged(self) -> dict[str, Tensor]:
        """The parameters in the layout of `LstmLayer`: gates i, f, o, j, and matrices that multiply from the right."""
        ours = {
            "input.weight": _reorder(self.input_linearity.weight).t(),
            "state.weight": _reorder(self.state_linearity.weight).t(),
            "bias": _reorder(self.state_linearity.bias),
        }
        if self.state_projection is not None:
            ours["projection.weight"] = self.state_projection.weight.t()
        return ours


def _reorder(gates: Tensor) -> Tensor:
    """(4C, ...) from i, f, j, o to i, f, o, j."""
    i, f, j, o = gates.chunk(4)
    return torch.cat((i, f, o, j))


class ElmoLstm(SubmoduleLists, _EncoderBase):
    """Both directions of all layers; `skip_connections` add a layer's input to its output, from the second layer on.

    Stateful: each row of a batch starts from the final state of the previous call. Set `stateful` to False if
    sentences must be independent.
    """

    forward_layers = Submodules("forward_layer_")
    backward_layers = Submodules("backward_layer_")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        cell_size: int,
        num_layers: int,
        requires_grad: bool = False,
        recurrent_dropout_probability: float = 0.0,
        memory_cell_clip_value: float | None = None,
        state_projection_clip_value: float | None = None,
    ) -> None:
        super().__init__(stateful=True)
        self.input_size, self.hidden_size, self.cell_size = input_size, hidden_size, cell_size
        self.num_layers, self.requires_grad = num_layers, requires_grad
        self.skip_connections = True
        for layer in range(num_layers):
            for side in ("forward", "backward"):
                cell = LstmCellWithProjection(
                    input_size if layer == 0 else hidden_size,
                    hidden_size,
                    cell_size,
                    side == "forward",
                    recurrent_dropout_probability,
                    memory_cell_clip_value,
                    state_projection_clip_value,
                )
                self.add_module(f"{side}_layer_{layer}", cell)

    def load_weights(self, weight_file: PathLike) -> None:
        """Load the LSTMs of a published HDF5 file."""
        self.load_state_dict(
            read_lstms(weight_file, replace(self.forward_layers[0]._config(), n_layers=self.num_layers))
        )
        self.requires_grad_(self.requires_grad)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """inputs: (B, T, d); mask: (B, T). Returns (L, B, T, 2D), zero at padding, forward half first."""
        n_rows, n_steps = mask.shape
        outputs, states, restoration = self.sort_and_run_forward(self._lstm_forward, inputs, mask)
        n_valid, n_read = outputs.shape[1:3]
        outputs = nn.functional.pad(outputs, (0, 0, 0, n_steps - n_read, 0, n_rows - n_valid))
        states = [nn.functional.pad(state, (0, 0, 0, n_rows - n_valid)) for state in states]
        self._update_states(states, restoration)
        restored: Tensor = outputs.index_select(1, restoration)
        return restored

    def _lstm_forward(self, inputs: PackedSequence, initial_state: Any = None) -> tuple[Tensor, State]:
        """Run packed sentences: (L, B, T, 2D), and the state (L, B, 2D), (L, B, 2C) after each."""
        layers = list(zip(self.forward_layers, self.backward_layers, strict=True))
        if initial_state is not None and len(initial_state[0]) != len(layers):
            raise ConfigError(f"state: expected {len(layers)} layers, found {len(initial_state[0])}")
        padded, lengths = pad_packed_sequence(inputs, batch_first=True)
        x = [padded, padded]  # forward, backward
        outputs, states = [], []
        for layer, cells in enumerate(layers):
            starts: list[Any] = [None, None]
            if initial_state is not None:
                halves = (state[layer : layer + 1].chunk(2, dim=-1) for state in initial_state)
                starts = list(zip(*halves, strict=True))
            ends = []
            for side, (cell, start) in enumerate(zip(cells, starts, strict=True)):
                y, end = cell(x[side], lengths.tolist(), start)
                x[side] = y + x[side] if layer and self.skip_connections else y
                ends.append(end)
            outputs.append(torch.cat(x, dim=-1))
            states.append([torch.cat(parts, dim=-1) for parts in zip(*ends, strict=True)])
        hidden, memory = (torch.cat(parts) for parts in zip(*states, strict=True))
        return torch.stack(outputs), (hidden, memory)
