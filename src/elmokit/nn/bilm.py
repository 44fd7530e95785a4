"""The bidirectional language model: one token encoder, two stacks of LSTMs that never see each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError
from elmokit.nn.joined import JoinedGates
from elmokit.nn.lstm import LstmLayer, LstmState
from elmokit.nn.matmul import BlockedMatmul, Int8Matmul, Matmul, Precision
from elmokit.nn.packing import Packing
from elmokit.nn.pair import pairs
from elmokit.nn.token_encoder import TokenEncoder

BiLMState = tuple[list[LstmState], list[LstmState]]  # of the forward and the backward layers, first layer first


@dataclass(frozen=True)
class BiLMOutput:
    """All that the biLM knows of N packed tokens: 2L + 1 vectors each (Peters et al. 2018, equation 1)."""

    tokens: Tensor  # (N, D) the context-free vector
    forward: list[Tensor]  # L times (N, D): what stands before a token, and the token
    backward: list[Tensor]  # L times (N, D): the token, and what stands after it
    state: BiLMState  # after every sentence's last token (forward) and first token (backward)

    @property
    def n_layers(self) -> int:
        """L + 1."""
        return len(self.forward) + 1

    def layer(self, j: int) -> Tensor:
        """h_j: (N, 2D). Layer 0 is the token vector twice, layer j is [forward_j; backward_j]."""
        return torch.cat(self._halves(j), dim=1)

    def layers(self) -> Tensor:
        """(L + 1, N, 2D)."""
        n, dim = self.tokens.shape
        halves = torch.stack([half for j in range(self.n_layers) for half in self._halves(j)], dim=1)  # (N, 2L + 2, D)
        return halves.view(n, self.n_layers, 2 * dim).transpose(0, 1)

    def _halves(self, j: int) -> tuple[Tensor, Tensor]:
        return (self.tokens, self.tokens) if j == 0 else (self.forward[j - 1], self.backward[j - 1])


class BiLM(nn.Module):
    """Two language models over shared token vectors; `layers` are what ELMo is made of.

    With skip connections the output of a layer from the second on is its LSTM's output plus its input; the recurrent
    state stays without the sum.
    """

    def __init__(self, *, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.token_encoder = TokenEncoder(config=config)
        self.dropout = 0.0  # while training: on every LSTM's input, token by token, and on the top output
        self.forward_layers = nn.ModuleList(LstmLayer(config=config.lstm) for _ in range(config.lstm.n_layers))
        self.backward_layers = nn.ModuleList(LstmLayer(config=config.lstm) for _ in range(config.lstm.n_layers))
        self.pairs = nn.ModuleList()  # made by `pack_`, for single sentences

    def zero_state(self, n: int) -> BiLMState:
        """The state before anything was read, for n sentences."""
        forward, backward = (
            [cast(LstmLayer, layer).zero_state(n) for layer in stack]
            for stack in (self.forward_layers, self.backward_layers)
        )
        return forward, backward

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return next(self.parameters()).device

    def forward(
        self,
        words: Tensor,
        index: Tensor,
        packing: Packing,
        state: BiLMState | None = None,
        backward_index: Tensor | None = None,
    ) -> BiLMOutput:
        """Read a batch of packed sentences.

        words: (U, D) vectors of the distinct words; index: (N,) which word each packed row is; state: what every
        sentence starts from (zero by default). In training the directions read different marks: `backward_index` says
        what the backward one reads at each row.
        """
        from_zero = state is None
        state = state or self.zero_state(len(packing.lengths))
        # The backward direction reads every sentence from its end: same packing, mirrored rows.
        from_end = (index if backward_index is None else backward_index)[packing.reverse]
        if self.pairs and len(packing.lengths) == 1:
            forward, mirrored, end = self._run_pairs(torch.stack((words[index], words[from_end])), state)
        else:
            forward, forward_end = self._run(self.forward_layers, words, index, packing, state[0], from_zero)
            mirrored, backward_end = self._run(self.backward_layers, words, from_end, packing, state[1], from_zero)
            end = forward_end, backward_end
        backward = [layer[packing.reverse] for layer in mirrored]
        return BiLMOutput(words[index], forward, backward, end)

    def _run(
        self, layers: nn.ModuleList, words: Tensor, index: Tensor, packing: Packing, state: Sequence[LstmState],
        from_zero: bool,
    ) -> tuple[list[Tensor], list[LstmState]]:  # fmt: skip
        drops = self.training and self.dropout > 0
        first = index[: len(packing.lengths)]
        alike = from_zero and not drops and bool((first == first[0]).all())  # as training's are, by their mark
        outputs: list[Tensor] = []
        end: list[LstmState] = []
        for n, (layer, before) in enumerate(zip(layers, state, strict=True)):
            x, rows = (outputs[-1], None) if n else (words, index)
            if drops:  # token by token, so a word that occurs twice is dropped out differently
                x, rows = functional.dropout(x if rows is None else x[rows], self.dropout), None
            m, after = layer(x, rows, packing, before, alike)
            outputs.append(m + x if n and self.config.lstm.skip_connections else m)
            end.append(after)
        if drops:
            outputs[-1] = functional.dropout(outputs[-1], self.dropout)
        return outputs, end

    def _run_pairs(self, x: Tensor, state: BiLMState) -> tuple[list[Tensor], list[Tensor], BiLMState]:
        """One sentence through both stacks at once; x: (2, T, D)."""
        forward, mirrored = [], []
        end: BiLMState = ([], [])
        for n, (pair, f, b) in enumerate(zip(self.pairs, *state, strict=True)):
            m, output, cell = pair(x, torch.stack((f.output, b.output)), torch.stack((f.cell, b.cell)))
            x = m + x if n and self.config.lstm.skip_connections else m
            forward.append(x[0])
            mirrored.append(x[1])
            for direction, states in enumerate(end):
                states.append(LstmState(output[direction], cell[direction]))
        return forward, mirrored, end

    def pack_(self, precision: Precision = "float32") -> BiLM:
        """Bring the weights, in place and for good, into the form that infers fastest on a CPU.

        With int8 only the LSTMs become integers: a word is encoded once, and its vector stays exact.
        """
        self.requires_grad_(False)
        if self.device.type == "cpu":
            self.token_encoder.tabulate_()
        if precision == "float32":
            self._require_exact()
            self.pairs = pairs(self.forward_layers, self.backward_layers)
            if self.pairs and BlockedMatmul.available(next(self.parameters())):
                # the first layer multiplies each distinct word once: better than joining
                for layer in (*self.forward_layers[1:], *self.backward_layers[1:]):
                    cast(LstmLayer, layer).join_()
        # one matrix at a time: nothing here may hold on to the old ones
        parents = [(path, module) for path, module in self.named_modules() if not isinstance(module, Matmul)]
        for path, module in parents:
            wanted: Precision = "float32" if path.startswith("token_encoder") else precision
            # a small projection is fast as it is, and can write where its result belongs
            kept = ["projection"] if self.pairs and isinstance(module, LstmLayer) else []
            for name in [n for n, child in module.named_children() if isinstance(child, Matmul) and n not in kept]:
                setattr(module, name, getattr(module, name).packed(wanted))
        return self

    def unpacked_state_dict(self) -> dict[str, Tensor]:
        """The parameters under their names, wherever `pack_` has put them."""
        self._require_exact()
        parameters = self.state_dict()
        for name, module in self.named_modules():
            if isinstance(module, JoinedGates):
                layer = name.removesuffix("joined")
                parameters[f"{layer}input.weight"], parameters[f"{layer}state.weight"] = module.separate()
            elif isinstance(module, BlockedMatmul):
                parameters[f"{name}.weight"] = module.unpacked()
        return parameters

    def _require_exact(self) -> None:
        if any(isinstance(module, Int8Matmul) for module in self.modules()):
            raise ConfigError("int8 weights cannot be turned back: load the model again with dtype float32")
