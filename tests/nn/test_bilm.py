"""Bidirectional language model: what each direction sees, skip connections, state, dropout."""

from __future__ import annotations

import torch
from tiny_bilm import tiny_bilm

from elmokit.nn.packing import Packing

PACKING = Packing.from_lengths([4, 2])  # rows: (sentence, time) 00 10 01 11 02 03
INDEX = torch.tensor([0, 1, 2, 3, 4, 5])
WORDS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def test_each_direction_sees_its_side_alone() -> None:
    bilm = tiny_bilm()
    before = bilm(WORDS, INDEX, PACKING)
    changed = WORDS.clone()
    changed[2] += 1  # the second token of the first sentence
    after = bilm(changed, INDEX, PACKING)
    time = {0: 0, 2: 1, 4: 2, 5: 3}  # of the rows of the first sentence
    for own, other, sees in (
        (before.forward, after.forward, lambda t: t >= 1),
        (before.backward, after.backward, lambda t: t <= 1),
    ):
        for a, b in zip(own, other, strict=True):
            for row in range(6):
                assert torch.equal(a[row], b[row]) != (row in time and sees(time[row]))


def test_layers_are_the_halves_side_by_side() -> None:
    output = tiny_bilm()(WORDS, INDEX, PACKING)
    layers = output.layers()
    assert layers.shape == (3, 6, 6) and output.n_vectors == 3
    assert torch.equal(layers[0], torch.cat((WORDS, WORDS), dim=1))
    for j in (1, 2):
        assert torch.equal(layers[j], torch.cat((output.forward[j - 1], output.backward[j - 1]), dim=1))
        assert torch.equal(output.layer(j), layers[j])


def test_skip_connections_add_the_input_of_a_layer() -> None:
    bilm = tiny_bilm()
    first, second = bilm.forward_layers
    zero = bilm.zero_state(2)
    m1, _ = first(WORDS[INDEX], PACKING, zero.forward[0])
    m2, end = second(m1, PACKING, zero.forward[1])
    output = bilm(WORDS, INDEX, PACKING)
    torch.testing.assert_close(output.forward[0], m1)
    torch.testing.assert_close(output.forward[1], m1 + m2)
    torch.testing.assert_close(output.state.forward[1].output, end.output)  # without the sum


def test_reading_continues_from_a_state() -> None:
    bilm, whole = tiny_bilm(), Packing.from_lengths([4])
    expected = bilm(WORDS, torch.tensor([0, 1, 2, 3]), whole)
    half = Packing.from_lengths([2])
    first = bilm(WORDS, torch.tensor([0, 1]), half)
    second = bilm(WORDS, torch.tensor([2, 3]), half, first.state)
    torch.testing.assert_close(torch.cat((first.forward[1], second.forward[1])), expected.forward[1])


def test_dropout_is_for_training_only() -> None:
    bilm = tiny_bilm()
    bilm.dropout = 0.5
    exact = bilm(WORDS, INDEX, PACKING).layers()
    torch.testing.assert_close(bilm(WORDS, INDEX, PACKING).layers(), exact)
    torch.manual_seed(0)
    dropped = bilm.train()(WORDS, INDEX, PACKING)
    assert (dropped.forward[-1] == 0).any() and not torch.equal(dropped.layers(), exact)
