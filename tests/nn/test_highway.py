"""Highway layer against its formula."""

from __future__ import annotations

import torch
from torch import Tensor

from elmokit.nn.highway import Highway


def make_highway(size: int) -> Highway:
    highway, generator = Highway(size=size).double(), torch.Generator().manual_seed(0)
    for parameter in highway.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
    return highway


def test_formula() -> None:
    highway, x = make_highway(4), torch.randn(3, 4, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    g = 1 / (1 + torch.exp(-(x @ highway.gate.weight + highway.gate_bias)))
    t = (x @ highway.transform.weight + highway.transform_bias).clamp(min=0)
    torch.testing.assert_close(highway(x), g * t + (1 - g) * x)


def test_gradients() -> None:
    highway = make_highway(3)
    x = torch.randn(4, 3, dtype=torch.double, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def run(x: Tensor, *_: Tensor) -> Tensor:
        result: Tensor = highway(x)
        return result

    assert torch.autograd.gradcheck(run, (x, *highway.parameters()))
