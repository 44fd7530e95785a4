"""Input products of the steps: from a table of distinct words, or block by block."""

from __future__ import annotations

import pytest
import torch

from elmokit.nn.cpu import step_inputs as module
from elmokit.nn.cpu.step_inputs import step_inputs
from elmokit.nn.packing import Packing


@pytest.mark.parametrize("block", [1, 30, 2**23])
@pytest.mark.parametrize("n_words", [None, 3, 50], ids=["no index", "few words", "many words"])
def test_every_step_reads_its_rows(block: int, n_words: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NUMBERS_PER_BLOCK", block)
    packing, generator = Packing.from_lengths([5, 3, 3, 1]), torch.Generator().manual_seed(0)
    x, weight = torch.randn(n_words or packing.n_tokens, 4, generator=generator), torch.randn(4, 6, generator=generator)
    index = None if n_words is None else torch.randint(0, n_words, (packing.n_tokens,), generator=generator)
    found = [step.clone() for step in step_inputs(lambda x: x @ weight, x, index, packing, 6)]
    assert [len(step) for step in found] == [stop - start for start, stop in packing.steps()]
    torch.testing.assert_close(torch.cat(found), (x if index is None else x[index]) @ weight)
