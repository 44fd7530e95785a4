"""Scalar mix against its formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.nn.scalar_mix import ScalarMix


def test_formula() -> None:
    mix = ScalarMix(n_layers=3)
    mix.scalars.data = torch.tensor([0.1, -0.4, 0.7])
    mix.gamma.data = torch.tensor(1.7)
    layers = torch.randn(3, 2, 5, 4)
    s = np.exp([0.1, -0.4, 0.7]) / np.exp([0.1, -0.4, 0.7]).sum()
    expected = 1.7 * sum(s[j] * layers[j] for j in range(3))
    torch.testing.assert_close(mix(layers), expected.float())
    torch.testing.assert_close(mix(list(layers)), expected.float())
    assert mix.weights().tolist() == pytest.approx(s.tolist())
    assert mix.l2().item() == pytest.approx(0.01 + 0.16 + 0.49)


def test_equal_at_first_and_trainable() -> None:
    mix = ScalarMix(n_layers=3)
    layers = torch.randn(3, 7, 4)
    torch.testing.assert_close(mix(layers), layers.mean(0))
    mix(layers).sum().backward()
    assert mix.scalars.grad is not None and mix.gamma.grad is not None


def test_fixed_weights_are_before_the_softmax() -> None:
    mix = ScalarMix(n_layers=2, weights=[0.0, float(np.log(3))])
    layers = torch.stack((torch.zeros(3, 2), torch.ones(3, 2)))
    torch.testing.assert_close(mix(layers), torch.full((3, 2), 0.75))
    assert not any(parameter.requires_grad for parameter in mix.parameters())
    for same in (np.array([0.0, 1.5]), torch.tensor([0.0, 1.5])):
        assert torch.equal(ScalarMix(n_layers=2, weights=same).scalars, torch.tensor([0.0, 1.5]))


def test_top_only() -> None:
    mix = ScalarMix(n_layers=3, top_only=True)
    mix.gamma.data.fill_(2)
    layers = torch.randn(3, 4, 2)
    torch.testing.assert_close(mix(layers), 2 * layers[2])
    assert mix.weights().tolist() == [0, 0, 1]  # whatever the scalars are: they are not trained
    assert [name for name, parameter in mix.named_parameters() if parameter.requires_grad] == ["gamma"]


def test_layer_norm_is_over_all_real_tokens_at_once() -> None:
    mix = ScalarMix(n_layers=1, layer_norm=True)
    layer = torch.tensor([[[1.0, 3.0], [5.0, 7.0], [100.0, -50.0]]])  # (B=1, T=3, 2D=2); the last is padding
    mask = torch.tensor([[True, True, False]])
    normed = mix(layer.unsqueeze(0), mask)  # mean 4, variance (9 + 1 + 1 + 9) / 4 = 5
    torch.testing.assert_close(normed[0, 0], torch.tensor([-3.0, -1.0]) / 5**0.5)
    torch.testing.assert_close(normed[0, 1], torch.tensor([1.0, 3.0]) / 5**0.5)


def test_wrong_number_of_layers() -> None:
    with pytest.raises(ConfigError, match="expected 3 layers, found 2"):
        ScalarMix(n_layers=3)(torch.zeros(2, 1, 4))
    with pytest.raises(ConfigError, match="expected 3 numbers"):
        ScalarMix(n_layers=3, weights=[1.0])
