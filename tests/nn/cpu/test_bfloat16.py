"""Training in bfloat16 on CPUs that have it: close to float32, with sums, states and gradients in float32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from elmokit.config import LstmConfig
from elmokit.nn.cpu import operators
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.cpu.products import linear, prepacked_linear, training_dtype, transposed_matmul
from elmokit.nn.highway import Highway
from elmokit.nn.lstm import LstmLayer
from elmokit.nn.packing import Packing
from elmokit.nn.softmax import AdaptiveHead, SoftmaxHead
from elmokit.nn.state import LstmState

needs_bfloat16 = pytest.mark.skipif(not operators.has_bfloat16(), reason="this CPU has no bfloat16 products")


def fill(module: nn.Module, std: float) -> None:
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=std, generator=generator)


def lstm(same_start: bool, projection_dim: int) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    layer = optimize_(LstmLayer(config=LstmConfig(dim=48, projection_dim=projection_dim)))
    packing = Packing.from_lengths([9, 7, 7, 3])
    zero = LstmState(torch.zeros(4, projection_dim), torch.zeros(4, 48))
    index = None if not same_start else torch.cat((torch.zeros(4, dtype=torch.long), torch.arange(1, 23)))
    return layer, lambda x: layer.run(x[:, :projection_dim], index, packing, zero, same_start)[0]  # type: ignore[operator]


def highway() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    layer = optimize_(Highway(size=48))
    return layer, layer


def softmax(adaptive: bool) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    head = AdaptiveHead(n_words=90, dim=48, cutoffs=(20, 50)) if adaptive else SoftmaxHead(n_words=90, dim=48)
    optimize_(head)
    targets = torch.arange(26) * 3
    return head, lambda x: head(x, targets)


CASES = {
    "lstm": lambda: lstm(False, 32),
    "lstm, same start": lambda: lstm(True, 32),
    "lstm without projection": lambda: lstm(False, 48),
    "highway": highway,
    "softmax": lambda: softmax(False),
    "adaptive softmax": lambda: softmax(True),
}


def learn(module: nn.Module, run: Callable[[Tensor], Tensor], rounded: bool) -> list[Tensor]:
    x = torch.randn(26, 48, generator=torch.Generator().manual_seed(1), requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=rounded):
        y = run(x)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), (x, *module.parameters()))]


@needs_bfloat16
@pytest.mark.parametrize("case", CASES)
def test_close_to_float32_in_values_and_gradients(case: str) -> None:
    module, run = CASES[case]()
    fill(module, 0.2)
    exact, rounded = learn(module, run, False), learn(module, run, True)
    for a, b in zip(rounded, exact, strict=True):
        assert a.dtype == torch.float32
        assert 0 < float((a - b).norm()) < 0.02 * float(b.norm())


@pytest.mark.parametrize("case", CASES)
def test_nothing_changes_on_other_cpus(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "has_bfloat16", lambda: False)
    module, run = CASES[case]()
    if case == "adaptive softmax" or (case == "highway" and not operators.has_onednn()):
        pytest.skip("autocast itself rounds the plain part of this")
    fill(module, 0.2)
    for a, b in zip(learn(module, run, True), learn(module, run, False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@needs_bfloat16
def test_products_round_their_factors_alone() -> None:
    x, w, b = (torch.randn(*shape, generator=torch.Generator().manual_seed(3)) for shape in ((7, 40), (40, 24), (24,)))
    exact = x.bfloat16().float() @ w.bfloat16().float()
    for form in (prepacked_linear, linear):
        torch.testing.assert_close(form(w, None, torch.bfloat16)(x).float(), exact, rtol=0.01, atol=0.02)
        found = form(w, b, torch.bfloat16)(x)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, exact + b, rtol=0.01, atol=0.02)
    gradient = transposed_matmul(x, exact, torch.bfloat16).float()
    assert float((gradient - x.t() @ exact).norm()) < 0.01 * float(gradient.norm())


@needs_bfloat16
def test_the_type_of_training() -> None:
    single, double = torch.zeros(1), torch.zeros(1, dtype=torch.double)
    assert (training_dtype(single), training_dtype(double)) == (torch.float32, torch.double)
    with torch.autocast("cpu", torch.bfloat16):
        assert (training_dtype(single), training_dtype(double)) == (torch.bfloat16, torch.double)
    with torch.autocast("cpu", torch.float16):
        assert training_dtype(single) == torch.float32
