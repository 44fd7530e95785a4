"""Matrix product with a trainable matrix."""

from __future__ import annotations

import torch

from elmokit.nn.matmul import Matmul


def test_product_and_bias() -> None:
    matmul = Matmul(n_in=3, n_out=2)
    torch.nn.init.ones_(matmul.weight)
    x, bias = torch.arange(12.0).view(2, 2, 3), torch.tensor([0.0, 10.0])
    assert torch.equal(matmul(x), x.sum(-1, keepdim=True).expand(2, 2, 2))
    assert torch.equal(matmul(x, bias), matmul(x) + bias)
