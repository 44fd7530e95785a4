"""Padded batches against one sentence at a time."""

from __future__ import annotations

import pytest
import torch
from tiny_bilm import BATCH, MARKS, tiny_bilm

from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.packing import Packing
from elmokit.nn.padded import TokenIds, read_padded


@pytest.fixture(params=[False, True], ids=["plain", "fast"])
def bilm(request: pytest.FixtureRequest) -> BiLM:
    return optimize_(tiny_bilm()) if request.param else tiny_bilm()


def by_hand(bilm: BiLM, rows: torch.Tensor) -> torch.Tensor:
    """(L + 1, n + 2, 2D): one sentence, every token encoded for itself."""
    ids = torch.cat((MARKS.characters[:1], rows, MARKS.characters[1:]))  # type: ignore[index]
    vectors = torch.cat([bilm.token_encoder(row.unsqueeze(0), None) for row in ids])
    return bilm(vectors, torch.arange(len(ids)), Packing.from_lengths([len(ids)])).layers()


def test_padded_reading_equals_one_sentence_at_a_time(bilm: BiLM) -> None:
    mask = (BATCH > 0).any(-1)
    read = read_padded(bilm, TokenIds(BATCH), mask, MARKS)
    assert read.layers.shape == (3, 3, 5, 6)
    layers, inner = read.without_marks()
    assert torch.equal(inner, mask)
    for b, n in enumerate((1, 3, 0)):
        expected = by_hand(bilm, BATCH[b, :n])
        torch.testing.assert_close(read.layers[:, b, : n + 2], expected)
        torch.testing.assert_close(layers[:, b, :n], expected[:, 1:-1])
        assert (read.layers[:, b, n + 2 :] == 0).all() and (layers[:, b, n:] == 0).all()
        assert read.mask[b].tolist() == [True] * (n + 2) + [False] * (3 - n)


def test_gradients_of_the_whole_network(bilm: BiLM) -> None:
    """Token encoder, both directions and residuals, in double precision against finite differences."""
    bilm = bilm.double()
    parameters = list(bilm.parameters())
    mask = (BATCH > 0).any(-1)

    def run(*_: torch.Tensor) -> torch.Tensor:
        return read_padded(bilm, TokenIds(BATCH), mask, MARKS).layers

    assert torch.autograd.gradcheck(run, tuple(parameters), atol=1e-5, fast_mode=True)
