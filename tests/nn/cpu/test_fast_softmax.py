"""Fast softmax losses against the plain ones, with gradients."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from elmokit.nn.cpu import fast_softmax, operators
from elmokit.nn.cpu.fast_softmax import FastAdaptiveHead, FastSoftmaxHead
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.softmax import AdaptiveHead, SoftmaxHead


def make(
    n_words: int, n: int = 7, dim: int = 5, seed: int = 0, dtype: torch.dtype = torch.double
) -> tuple[SoftmaxHead, Tensor, Tensor]:  # fmt: skip
    """A head with random numbers, inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    head = SoftmaxHead(n_words=n_words, dim=dim)
    head.initialize(generator)
    torch.nn.init.normal_(head.bias, generator=generator)
    x = torch.randn(n, dim, generator=generator, dtype=dtype).requires_grad_()
    return optimize_(head.to(dtype)), x, torch.randint(0, n_words, (n,), generator=generator)


def gradients(loss: Tensor, *of: Tensor) -> list[np.ndarray]:
    return [g.to_dense().numpy() for g in torch.autograd.grad(loss, of)]


@pytest.fixture(params=[(2**21, 128), (30, 1)], ids=["one block", "many blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_softmax, "SCORES_PER_BLOCK", request.param[0])
    monkeypatch.setattr(fast_softmax, "FEWEST_ROWS", request.param[1])


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("n_words", [1, 2, 11])
@pytest.mark.parametrize("scaled", [False, True], ids=["sum", "a factor for each"])
def test_the_full_softmax_equals_torch(n_words: int, scaled: bool) -> None:
    head, x, targets = make(n_words)
    expected = functional.cross_entropy(x @ head.weight.t() + head.bias, targets, reduction="none")
    losses = head(x, targets)
    torch.testing.assert_close(losses, expected)
    scale = torch.rand(len(x), dtype=torch.double) if scaled else torch.tensor(0.3, dtype=torch.double)
    of = (x, head.weight, head.bias)
    for actual, wanted in zip(
        gradients((losses * scale).sum(), *of), gradients((expected * scale).sum(), *of), strict=True
    ):
        np.testing.assert_allclose(actual, wanted, atol=1e-12)
    torch.testing.assert_close(
        head.log_probabilities(x), torch.log_softmax(x @ head.weight.t() + head.bias, dim=1)
    )  # fmt: skip


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("n", [1, 6, 7, 131, 300])
def test_single_precision_is_close_to_double(n: int) -> None:
    found, expected = [], []
    for dtype, results in ((torch.float32, found), (torch.double, expected)):
        head, x, targets = make(11, n=n)
        head, x = head.to(dtype), x.detach().to(dtype).requires_grad_()
        losses = head(x, targets)
        results += [losses.detach().numpy(), *gradients(losses.sum(), x, head.weight, head.bias)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-5)


@pytest.mark.usefixtures("blocks")
def test_gradients_are_derivatives() -> None:
    head, x, targets = make(9)

    def loss(x: Tensor, weight: Tensor, bias: Tensor, n_samples: int | None) -> Tensor:
        call = torch.func.functional_call
        parameters = {"weight": weight, "bias": bias}
        if n_samples is None:
            result: Tensor = call(head, parameters, (x, targets))
            return result
        fixed = _Sampled(head)
        return call(fixed, {f"head.{name}": value for name, value in parameters.items()}, (x, targets, n_samples))

    for n_samples in (None, 4):
        assert torch.autograd.gradcheck(loss, (x, head.weight, head.bias, n_samples))


class _Sampled(torch.nn.Module):
    """`sampled` as a module's forward, always with the same sample."""

    def __init__(self, head: SoftmaxHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, x: Tensor, targets: Tensor, n_samples: int) -> Tensor:
        return self.head.sampled(x, targets, n_samples, torch.Generator().manual_seed(3))


def test_scores_may_be_huge() -> None:
    head, x, targets = make(11, dtype=torch.float32)
    head.weight.data *= 1e4
    losses = head(x, targets)
    torch.testing.assert_close(
        losses, functional.cross_entropy(x @ head.weight.t() + head.bias, targets, reduction="none")
    )
    assert all(np.isfinite(g).all() for g in gradients(losses.sum(), x, head.weight, head.bias))


@pytest.mark.usefixtures("blocks")
@given(
    n_words=st.integers(2, 40), n=st.integers(1, 300), dim=st.integers(1, 9), seed=st.integers(0, 1000), data=st.data(),
    dtype=st.sampled_from([torch.float32, torch.double]),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_the_sampled_softmax_equals_the_plain_one(
    n_words: int, n: int, dim: int, seed: int, data: st.DataObject, dtype: torch.dtype
) -> None:
    fast, x, targets = make(n_words, n=n, dim=dim, seed=seed, dtype=dtype)
    plain = SoftmaxHead(n_words=n_words, dim=dim).to(dtype)
    plain.load_state_dict(fast.state_dict())
    assert isinstance(fast, FastSoftmaxHead) and not isinstance(plain, FastSoftmaxHead)
    n_samples = data.draw(st.integers(1, n_words - 1))
    scale = torch.rand(n, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    results = []
    for head in (fast, plain):
        losses = head.sampled(x, targets, n_samples, torch.Generator().manual_seed(seed))
        results.append([losses.detach().numpy(), *gradients((losses * scale).sum(), x, head.weight, head.bias)])
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, atol=tolerance, rtol=tolerance)


@given(n=st.integers(1, 40), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_adaptive_softmax_equals_the_plain_one(n: int, seed: int) -> None:
    torch.manual_seed(seed)
    plain = AdaptiveHead(n_words=20, dim=8, cutoffs=(3, 10)).double()
    fast = optimize_(deepcopy(plain))
    assert isinstance(fast, FastAdaptiveHead) and not isinstance(plain, FastAdaptiveHead)
    x, targets = torch.randn(n, 8, dtype=torch.double, requires_grad=True), torch.randint(0, 20, (n,))
    results = []
    for head in (fast, plain):
        losses = head(x, targets)
        results.append([losses, *torch.autograd.grad(losses.sum(), (x, *head.parameters()))])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_autocast_keeps_full_precision_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "has_bfloat16", lambda: False)
    head, x, targets = make(11, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = head(x, targets)
        losses.sum().backward()
    torch.testing.assert_close(losses, head(x, targets))
