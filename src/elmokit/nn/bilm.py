"""Bidirectional language model: one token encoder and two independent LSTM stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import ModelConfig
from elmokit.nn.lstm import LstmLayer
from elmokit.nn.packing import Packing
from elmokit.nn.state import BiLMState, LstmState
from elmokit.nn.token_encoder import TokenEncoder


@dataclass(frozen=True)
class BiLMOutput:
    """The 2L + 1 vectors of each of N packed tokens (Peters et al. 2018, equation 1)."""

    tokens: Tensor  # (N, D) the context-free vector
    forward: list[Tensor]  # L times (N, D): the token and its left context
    backward: list[Tensor]  # L times (N, D): the token and its right context
    state: BiLMState  # after every sentence's last token (forward) and first token (backward)

    @property
    def n_vectors(self) -> int:
        """Number of vectors per token, L + 1."""
        return len(self.forward) + 1

    def layer(self, j: int) -> Tensor:
        """h_j: (N, 2D). Layer 0 is the token vector twice, layer j is [forward_j; backward_j]."""
        return torch.cat(self._halves(j), dim=1)

    def layers(self) -> Tensor:
        """All layers, (L + 1, N, 2D)."""
        n, dim = self.tokens.shape
        halves = torch.stack([half for j in range(self.n_vectors) for half in self._halves(j)], dim=1)  # (N, 2L + 2, D)
        return halves.view(n, self.n_vectors, 2 * dim).transpose(0, 1)

    def _halves(self, j: int) -> tuple[Tensor, Tensor]:
        return (self.tokens, self.tokens) if j == 0 else (self.forward[j - 1], self.backward[j - 1])


Stack = tuple[list[Tensor], tuple[LstmState, ...]]  # output (N, D) and final state of every layer of one direction


class BiLM(nn.Module):
    """Two language models over shared token vectors; their layers are what ELMo mixes.

    With skip connections, every layer from the second on adds its input to the output of its LSTM; the recurrent state
    is taken before the addition.
    """

    def __init__(self, *, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.token_encoder = TokenEncoder(config=config)
        self.dropout = 0.0  # in training: on the input of every LSTM and on the output of the last
        self.forward_layers = nn.ModuleList(LstmLayer(config=config.lstm) for _ in range(config.lstm.n_layers))
        self.backward_layers = nn.ModuleList(LstmLayer(config=config.lstm) for _ in range(config.lstm.n_layers))

    def zero_state(self, n: int) -> BiLMState:
        """The state before the first token of n sentences."""
        return BiLMState.zeros(self.config.lstm, n, like=next(self.forward_layers.parameters()))

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next(self.parameters()).device

    def forward(
        self,
        word_vectors: Tensor,
        index: Tensor,
        packing: Packing,
        state: BiLMState | None = None,
        backward_index: Tensor | None = None,
    ) -> BiLMOutput:
        """Read a batch of packed sentences.

        word_vectors: (U, D), of the distinct words; index: (N,), the row of `word_vectors` of each packed token; state:
        the initial state of every sentence, zero by default; backward_index: (N,), the index for the backward direction
        if it differs, as in training, where each direction reads only one of the two sentence marks.
        """
        # The backward direction reads every sentence from its end: same packing, mirrored rows.
        mirrored_index = (index if backward_index is None else backward_index)[packing.reverse]
        stacks = self.run_stacks(word_vectors, index, mirrored_index, packing, state)
        (forward, forward_end), (mirrored, backward_end) = stacks
        backward = [layer[packing.reverse] for layer in mirrored]
        return BiLMOutput(word_vectors[index], forward, backward, BiLMState(forward_end, backward_end))

    def run_stacks(
        self, word_vectors: Tensor, index: Tensor, mirrored_index: Tensor, packing: Packing, state: BiLMState | None
    ) -> tuple[Stack, Stack]:
        """Each direction over its own packed rows, word_vectors[index] and word_vectors[mirrored_index]."""
        state = state or self.zero_state(len(packing.lengths))
        return (
            self._run(self.forward_layers, word_vectors[index], packing, state.forward),
            self._run(self.backward_layers, word_vectors[mirrored_index], packing, state.backward),
        )

    def _run(self, layers: nn.ModuleList, x: Tensor, packing: Packing, state: Sequence[LstmState]) -> Stack:
        outputs, end = [], []
        for n, (layer, before) in enumerate(zip(layers, state, strict=True)):
            x = self.drop(x)
            m, after = layer(x, packing, before)
            x = m + x if n and self.config.lstm.skip_connections else m
            outputs.append(x)
            end.append(after)
        outputs[-1] = self.drop(outputs[-1])
        return outputs, tuple(end)

    def drop(self, x: Tensor) -> Tensor:
        """Dropout, while training."""
        return functional.dropout(x, self.dropout) if self.training and self.dropout else x
