"""The choice of layers, as users may write it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from elmokit.embed.engine import combine
from elmokit.embed.layer_choice import check_layers, combine_layers
from elmokit.errors import ConfigError
from elmokit.nn.bilm import BiLMOutput
from elmokit.nn.state import BiLMState


@pytest.mark.parametrize("choice", ["all", "top", "average", 0, 2])
def test_names_and_numbers_stay_as_they_are(choice: Any) -> None:
    assert check_layers(choice, 3) == choice


def test_numbers_and_weights_of_other_libraries() -> None:
    number = check_layers(np.int64(1), 3)  # type: ignore[arg-type]
    assert number == 1 and type(number) is int
    assert check_layers(np.array([0.5, -2, 1]), 3) == [0.5, -2.0, 1.0]  # type: ignore[arg-type]
    assert check_layers((1, 0, 0), 3) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, "this model has 0 to 2, found 3"),
        (-1, "this model has 0 to 2, found -1"),
        ("mean", "expected all, top, average, a number or weights, found 'mean'"),
        ("012", "found '012'"),
        (None, "found None"),
        (1.5, "found 1.5"),
        ([], "found "),
        ([1.0, "x", 2.0], "found "),
        ([1.0, 2.0], "expected 3 weights.* found 2"),
        ([1.0, math.nan, 2.0], "expected finite weights"),
    ],
)
def test_other_choices_are_errors_that_name_the_argument(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^layers: .*{message}"):
        check_layers(wrong, 3)


@pytest.mark.parametrize("choice", ["all", "top", "average", 1, (0.5, -1.0, 2.0)])
def test_numpy_and_torch_combine_alike(choice: Any) -> None:
    rng = np.random.default_rng(0)
    halves = rng.standard_normal((5, 4, 2)).astype(np.float32)  # tokens, forward and backward of two layers
    tokens, *others = map(torch.from_numpy, halves)
    output = BiLMOutput(tokens, others[:2], others[2:], BiLMState((), ()))
    array = output.layers().numpy()
    expected = {"all": array, "top": array[2:], "average": array.mean(axis=0, keepdims=True), 1: array[1:2]}
    wanted = expected.get(choice, sum(w * layer for w, layer in zip((0.5, -1.0, 2.0), array, strict=True)))
    assert np.allclose(combine_layers(array, choice), wanted, atol=1e-6)
    assert np.allclose(combine(output, choice).numpy(), wanted, atol=1e-6)
