"""The highway LSTM against a loop over tokens."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.nn.packing import Packing
from elmokit.tasks.srl.highway_lstm import AlternatingLstm, HighwayLstmLayer

D, H = 3, 4


def make_layer(backward: bool, seed: int = 0) -> HighwayLstmLayer:
    generator = torch.Generator().manual_seed(seed)
    layer = HighwayLstmLayer(n_in=D, n_hidden=H, backward=backward).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double))
    return layer


def slow_layer(layer: HighwayLstmLayer, x: Tensor, keep: Tensor) -> Tensor:
    """One sentence, one token at a time: (n, D) and (H,) to (n, H)."""
    h = c = x.new_zeros(layer.carry.shape[1])
    outputs = []
    for token in x.flip(0) if layer.backward else x:
        i, f, j, o, r = (token @ layer.input + h @ layer.state + layer.bias).chunk(5)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j)
        r = torch.sigmoid(r)
        h = keep * (r * torch.sigmoid(o) * torch.tanh(c) + (1 - r) * (token @ layer.carry))
        outputs.append(h)
    return torch.stack(outputs[::-1] if layer.backward else outputs)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("with_index", [False, True])
@pytest.mark.parametrize("with_dropout", [False, True])
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_values_and_gradients_equal_the_loop(
    backward: bool, with_index: bool, with_dropout: bool, data: st.DataObject
) -> None:
    lengths = sorted(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)), reverse=True)
    seed = data.draw(st.integers(0, 1000))
    generator = torch.Generator().manual_seed(seed)
    layer, packing = make_layer(backward, seed), Packing.from_lengths(lengths)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.double)

    index = torch.randint(0, 4, (packing.n_tokens,), generator=generator) if with_index else None
    x = draw(4 if with_index else packing.n_tokens, D).requires_grad_()
    keep = draw(len(lengths), H) if with_dropout else None
    weight = draw(packing.n_tokens, H)
    inputs = [x, *layer.parameters()]

    h = layer(x, index, packing, keep)
    rows = x if index is None else x[index]
    expected = torch.zeros_like(h)
    for b in range(len(lengths)):
        at = packing.rows(b)
        one = slow_layer(layer, rows[at], torch.ones(H, dtype=torch.double) if keep is None else keep[b])
        expected = expected.index_put((at,), one)
    torch.testing.assert_close(h, expected)
    ours, theirs = (torch.autograd.grad((out * weight).sum(), inputs) for out in (h, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        torch.testing.assert_close(layer(x, index, packing, keep), expected)


@pytest.mark.parametrize("backward", [False, True])
def test_gradcheck(backward: bool) -> None:
    layer, packing = make_layer(backward), Packing.from_lengths([4, 3, 3, 1])
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(6, D, generator=generator, dtype=torch.double).requires_grad_()
    index = torch.randint(0, 6, (packing.n_tokens,), generator=generator)
    keep = torch.rand(4, H, generator=generator, dtype=torch.double)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, index, packing, keep), (x, *layer.parameters()))


@pytest.mark.parametrize("backward", [False, True])
def test_a_layer_sees_one_side_only(backward: bool) -> None:
    layer, packing = make_layer(backward), Packing.from_lengths([5])
    x = torch.randn(5, D, generator=torch.Generator().manual_seed(0), dtype=torch.double).requires_grad_()
    for t in range(5):
        (gradient,) = torch.autograd.grad(layer(x, None, packing)[t].sum(), x)
        seen = gradient.abs().sum(1) > 0
        assert seen.tolist() == [(k >= t) if backward else (k <= t) for k in range(5)]


def test_layers_alternate_and_no_sentence_sees_another() -> None:
    torch.manual_seed(0)
    stack = AlternatingLstm(n_in=D, n_hidden=H, n_layers=3).double()
    assert [layer.backward for layer in stack.layers] == [False, True, False]
    sentences = [torch.randn(n, D, dtype=torch.double) for n in (6, 4, 4, 1)]
    packing = Packing.from_lengths([len(s) for s in sentences])
    packed = packing.pack(torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True))
    together = stack(packed, None, packing)
    for b, sentence in enumerate(sentences):
        alone = sentence
        for layer in stack.layers:
            alone = slow_layer(layer, alone, torch.ones(H, dtype=torch.double))
        torch.testing.assert_close(together[packing.rows(b)], alone)


def test_dropout_is_the_same_at_all_tokens_of_a_sentence_and_only_in_training() -> None:
    torch.manual_seed(0)
    stack = AlternatingLstm(n_in=D, n_hidden=50, n_layers=1, dropout=0.5)
    packing = Packing.from_lengths([7, 5, 2])
    x = torch.randn(packing.n_tokens, D)
    dropped = [stack(x, None, packing)[packing.rows(b)] == 0 for b in range(3)]
    for sentence in dropped:
        assert (sentence == sentence[0]).all()
        assert 0.2 < sentence[0].float().mean() < 0.8
    assert not torch.equal(dropped[0][0], dropped[1][0])
    stack.eval()
    assert (stack(x, None, packing) != 0).all()
