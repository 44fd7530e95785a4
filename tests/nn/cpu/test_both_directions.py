"""Both directions of a single sentence at once against one after the other."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.config import LstmConfig, ModelConfig
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu import both_directions
from elmokit.nn.cpu.both_directions import BidirectionalStack
from elmokit.nn.packing import Packing
from elmokit.nn.state import BiLMState


@pytest.mark.parametrize("projection_dim", [3, 5], ids=["projection", "no projection"])
@given(
    length=st.integers(1, 9), skip=st.booleans(), clip=st.sampled_from([None, 0.3]), block=st.sampled_from([1, 4, 512])
)
@settings(max_examples=15, deadline=None)
def test_equal_to_the_plain_stacks(
    projection_dim: int, length: int, skip: bool, clip: float | None, block: int
) -> None:
    lstm = LstmConfig(dim=5, projection_dim=projection_dim, cell_clip=clip, proj_clip=clip, skip_connections=skip)
    config = ModelConfig(lstm=lstm, char_cnn=None, n_words=4, word_dim=projection_dim)
    bilm, generator = BiLM(config=config).double(), torch.Generator().manual_seed(length)
    for parameter in bilm.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    words = torch.randn(length, projection_dim, dtype=torch.double, generator=generator)
    state = BiLMState.from_tensors(
        [torch.randn(t.shape, dtype=torch.double, generator=generator) for t in bilm.zero_state(1).tensors()]
    )
    index, packing = torch.arange(length), Packing.from_lengths([length])
    with torch.no_grad(), patch.object(both_directions, "TOKENS_PER_BLOCK", block):
        expected = bilm.run_stacks(words, index, index.flip(0), packing, state)
        stack = BidirectionalStack(bilm.forward_layers, bilm.backward_layers)
        outputs, end = stack(torch.stack((words, words.flip(0))), state, skip)
    for way, (layers, states) in enumerate(expected):
        for n in range(lstm.n_layers):
            torch.testing.assert_close(outputs[n][way], layers[n])
            torch.testing.assert_close(end[n].output[way], states[n].output)
            torch.testing.assert_close(end[n].cell[way], states[n].cell)
