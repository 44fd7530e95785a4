"""The module that tasks use."""

from __future__ import annotations

import pytest
import torch
from tiny_bilm import BATCH, MARKS, tiny_bilm

from elmokit.errors import InputError
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.mixed_bilm import MixedBiLM
from elmokit.nn.padded import TokenIds, read_padded


@pytest.fixture(params=[False, True], ids=["plain", "fast"])
def bilm(request: pytest.FixtureRequest) -> BiLM:
    return optimize_(tiny_bilm()) if request.param else tiny_bilm()


def test_module_for_tasks(bilm: BiLM) -> None:
    elmo = MixedBiLM(bilm, marks=MARKS, n_mixes=2, dropout=0.0)
    output = elmo(TokenIds(BATCH))
    assert [r.shape for r in output.representations] == [(3, 3, 6)] * 2
    layers, _ = read_padded(bilm, TokenIds(BATCH), output.mask, MARKS).without_marks()
    torch.testing.assert_close(output.representations[0], layers.mean(0))
    torch.testing.assert_close(elmo.mix(layers, output.mask).representations[1], output.representations[1])
    sum(r.sum() for r in output.representations).backward()
    assert all(p.grad is not None for p in elmo.mixes.parameters())
    assert all(p.grad is None for p in bilm.parameters())
    assert elmo.l2().item() == 0


def test_fine_tuning_reaches_every_parameter(bilm: BiLM) -> None:
    elmo = MixedBiLM(bilm, marks=MARKS, dropout=0.0, trainable=True)
    elmo(TokenIds(BATCH)).representations[0].square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in bilm.parameters())


def test_dropout_is_for_training_only(bilm: BiLM) -> None:
    elmo = MixedBiLM(bilm, marks=MARKS, dropout=0.5)
    torch.manual_seed(0)
    trained = elmo(TokenIds(BATCH)).representations[0]
    still = elmo.eval()(TokenIds(BATCH)).representations[0]
    kept = trained != 0
    assert 0 < kept[:2].sum() < still[:2].count_nonzero()
    torch.testing.assert_close(trained[kept], 2 * still[kept])


def test_masks_of_any_kind(bilm: BiLM) -> None:
    elmo = MixedBiLM(bilm, marks=MARKS, dropout=0.0, layer_norm=True)
    mask = (BATCH > 0).any(-1)
    expected = elmo(TokenIds(BATCH), mask).representations[0]
    torch.testing.assert_close(elmo(TokenIds(BATCH), mask.long()).representations[0], expected)
    layers = torch.randn(3, 3, 3, 6)
    torch.testing.assert_close(elmo.mixes[0](layers, mask.long()), elmo.mixes[0](layers, mask))
    nothing = elmo(TokenIds(torch.zeros_like(BATCH))).representations[0]  # normalized over no tokens at all
    assert torch.equal(nothing, torch.zeros(3, 3, 6))
    with pytest.raises(InputError, match="mask: expected the tokens of each sentence before its padding"):
        elmo(TokenIds(BATCH.flip(1)))
    with pytest.raises(InputError, match="mask: expected one, as this model reads no characters"):
        elmo(TokenIds(words=torch.zeros(1, 1, dtype=torch.long)))
