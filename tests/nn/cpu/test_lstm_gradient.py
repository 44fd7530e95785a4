"""The hand-written backward pass against finite differences."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from elmokit.config import LstmConfig
from elmokit.nn.cpu import lstm_gradient, operators
from elmokit.nn.cpu.lstm_gradient import LstmFunction
from elmokit.nn.packing import Packing

pytestmark = pytest.mark.skipif(not operators.has_derivatives(), reason="the derivatives of activations cannot be used")


@pytest.mark.parametrize("block", [1, 2**22], ids=["blocks of one step", "one block"])
@pytest.mark.parametrize("same_start", [False, True])
@pytest.mark.parametrize("with_index", [False, True])
@pytest.mark.parametrize("projection_dim", [3, 4], ids=["projection", "no projection"])
def test_gradcheck(block: int, same_start: bool, with_index: bool, projection_dim: int) -> None:
    config = LstmConfig(dim=4, projection_dim=projection_dim, cell_clip=0.5, proj_clip=0.4)
    packing, generator = Packing.from_lengths([4, 2, 1]), torch.Generator().manual_seed(1)
    index = torch.tensor([2, 2, 2, 1, 0, 3, 1]) if with_index else None

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.double).requires_grad_()

    d, c = config.projection_dim, config.dim
    weights = [draw(d, 4 * c), draw(d, 4 * c), draw(4 * c), draw(c, d) if config.has_projection else None]
    if same_start:
        zero = torch.zeros(3, d, dtype=torch.double), torch.zeros(3, c, dtype=torch.double)
        first, rest = draw(1, d), draw(6 if with_index else 4, d)
    else:
        zero, first, rest = (draw(3, d), draw(3, c)), draw(1, d), draw(6, d)

    def run(first: Tensor, rest: Tensor, *others: Tensor | None) -> tuple[Tensor, Tensor]:
        repeats = 3 if same_start and not with_index else 1  # the same input at the start of all sentences
        x = torch.cat((first.expand(repeats, -1), rest))
        settings = (index, packing, same_start, config, x.dtype)
        result: tuple[Tensor, Tensor] = LstmFunction.apply(x, *others, *settings)  # type: ignore[no-untyped-call]
        return result

    with patch.object(lstm_gradient, "GATE_NUMBERS_PER_BLOCK", block):
        assert torch.autograd.gradcheck(run, (first, rest, *weights, *zero))
