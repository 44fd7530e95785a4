"""Bidirectional language model for CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from elmokit.nn.bilm import BiLM, Stack
from elmokit.nn.cpu.both_directions import BidirectionalStack
from elmokit.nn.cpu.fast_lstm import FastLstmLayer
from elmokit.nn.packing import Packing
from elmokit.nn.state import BiLMState, LstmState


class FastBiLM(BiLM):
    """`BiLM` on a CPU.

    The first layer computes input products once per distinct word; a single sentence runs in both directions at once.
    """

    @property
    def both_directions(self) -> BidirectionalStack | None:
        """Both stacks as one module, for single sentences; only small networks packed for inference have it."""
        return cast("BidirectionalStack | None", self._modules.get("bidirectional_stack"))

    def run_stacks(
        self, word_vectors: Tensor, index: Tensor, mirrored_index: Tensor, packing: Packing, state: BiLMState | None
    ) -> tuple[Stack, Stack]:
        """As `BiLM.run_stacks`."""
        if word_vectors.device.type != "cpu":
            return super().run_stacks(word_vectors, index, mirrored_index, packing, state)
        from_zero = state is None
        state = state or self.zero_state(len(packing.lengths))
        if self.both_directions is not None and len(packing.lengths) == 1:
            x = torch.stack((word_vectors[index], word_vectors[mirrored_index]))  # (2, T, D)
            outputs, end = self.both_directions(x, state, self.config.lstm.skip_connections)
            forward, backward = (
                ([x[way] for x in outputs], tuple(LstmState(s.output[way], s.cell[way]) for s in end)) for way in (0, 1)
            )
            return forward, backward
        return (
            self._run_words(self.forward_layers, word_vectors, index, packing, state.forward, from_zero),
            self._run_words(self.backward_layers, word_vectors, mirrored_index, packing, state.backward, from_zero),
        )

    def _run_words(
        self,
        layers: nn.ModuleList,
        word_vectors: Tensor,
        index: Tensor,
        packing: Packing,
        state: Sequence[LstmState],
        from_zero: bool,
    ) -> Stack:
        drops = self.training and self.dropout > 0
        first = index[: len(packing.lengths)]
        # usually true in training without dropout: every sentence starts with the same mark
        same_start = from_zero and not drops and bool((first == first[0]).all())
        outputs: list[Tensor] = []
        end: list[LstmState] = []
        for n, (layer, before) in enumerate(zip(layers, state, strict=True)):
            x, rows = (outputs[-1], None) if n else (word_vectors, index)
            if drops:  # dropout per token, so that two occurrences of a word get different masks
                x, rows = self.drop(x if rows is None else x[rows]), None
            m, after = cast(FastLstmLayer, layer).run(x, rows, packing, before, same_start)
            outputs.append(m + x if n and self.config.lstm.skip_connections else m)
            end.append(after)
        outputs[-1] = self.drop(outputs[-1])
        return outputs, tuple(end)
