"""The biLSTM against torch's packed one, and dropout that keeps a sequence whole."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmokit.tasks.shared.dropout import VariationalDropout
from elmokit.tasks.shared.encoder import BiLstm


def packed_twin(encoder: BiLstm, n_in: int, n_hidden: int, n_layers: int) -> nn.LSTM:
    """torch's own bidirectional LSTM with the same weights."""
    twin = nn.LSTM(n_in, n_hidden, n_layers, batch_first=True, bidirectional=True)
    for k in range(n_layers):
        for suffix, layers in (("", encoder.forward_layers), ("_reverse", encoder.backward_layers)):
            for name, parameter in layers[k].named_parameters():
                getattr(twin, name.replace("_l0", f"_l{k}{suffix}")).data = parameter.data
    return twin


@pytest.mark.parametrize("n_layers", [1, 2])
def test_it_is_torchs_packed_lstm(n_layers: int) -> None:
    torch.manual_seed(0)
    encoder = BiLstm(n_in=5, n_hidden=4, n_layers=n_layers)
    for parameter in encoder.parameters():
        nn.init.normal_(parameter)
    twin = packed_twin(encoder, 5, 4, n_layers)
    lengths = torch.tensor([3, 7, 1, 7, 2])
    mask = torch.arange(7) < lengths[:, None]
    x, y = (torch.randn(5, 7, 5, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    found = encoder(x, mask)
    packed, _ = twin(pack_padded_sequence(y, lengths, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(found.shape)
    torch.autograd.backward(((found * weights).sum(), (expected * weights).sum()))
    torch.testing.assert_close(x.grad, y.grad)


def test_padding_does_not_matter_and_an_empty_sequence_is_zero() -> None:
    encoder = BiLstm(n_in=3, n_hidden=4, n_layers=2)
    x = torch.randn(3, 6, 3)
    mask = torch.arange(6) < torch.tensor([[4], [0], [2]])
    found = encoder(x, mask)
    other = encoder(torch.where(mask.unsqueeze(-1), x, torch.tensor(99.0)), mask)
    torch.testing.assert_close(found, other)
    torch.testing.assert_close(found[:1, :4], encoder(x[:1, :4], mask[:1, :4]))
    assert not found[~mask].any() and not found[1].any()
    assert encoder.output_dim == found.shape[-1] == 8


def test_dropout_is_between_the_layers_and_in_training_alone() -> None:
    torch.manual_seed(0)
    x, mask = torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    one = BiLstm(n_in=4, n_hidden=4, dropout=0.9)
    assert torch.equal(one(x, mask), one(x, mask))
    two = BiLstm(n_in=4, n_hidden=4, n_layers=2, dropout=0.9)
    assert not torch.equal(two(x, mask), two(x, mask))
    two.eval()
    assert torch.equal(two(x, mask), two(x, mask))


def test_variational_dropout_drops_the_same_of_all_tokens() -> None:
    torch.manual_seed(0)
    drop = VariationalDropout(0.5)
    x = torch.ones(4, 5, 50)
    y = drop(x)
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(y, y[:, :1].expand_as(y)) and not torch.equal(y[0], y[1])
    assert 0.3 < float((y == 0).float().mean()) < 0.7
    drop.eval()
    assert drop(x) is x
