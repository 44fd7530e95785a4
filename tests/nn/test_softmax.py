"""Output layers: the plain losses against their formulas, and what sampling promises in expectation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from elmokit.errors import ConfigError
from elmokit.nn import log_uniform, softmax
from elmokit.nn.log_uniform import draw_log_uniform
from elmokit.nn.softmax import AdaptiveHead, SoftmaxHead, assemble_head


def make(
    n_words: int, n: int = 7, dim: int = 5, seed: int = 0, dtype: torch.dtype = torch.double
) -> tuple[SoftmaxHead, Tensor, Tensor]:  # fmt: skip
    """A head with random numbers, inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    head = SoftmaxHead(n_words=n_words, dim=dim)
    head.initialize(generator)
    torch.nn.init.normal_(head.bias, generator=generator)
    x = torch.randn(n, dim, generator=generator, dtype=dtype).requires_grad_()
    return head.to(dtype), x, torch.randint(0, n_words, (n,), generator=generator)


def gradients(loss: Tensor, *of: Tensor) -> list[np.ndarray]:
    return [g.to_dense().numpy() for g in torch.autograd.grad(loss, of)]


@pytest.mark.parametrize("scores", [1, 30, 2**25])
def test_the_full_softmax_does_not_depend_on_its_parts(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "SCORES_AT_ONCE", scores)
    head, x, targets = make(11)
    expected = functional.cross_entropy(x @ head.weight.t() + head.bias, targets, reduction="none")
    losses = head(x, targets)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(-head.log_probabilities(x)[range(len(x)), targets], expected)
    for found, wanted in zip(
        gradients(losses.sum(), x, *head.parameters()), gradients(expected.sum(), x, *head.parameters()), strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize(("n_words", "n_samples"), [(30, 12), (30, 29), (3, 1), (2, 1)])
def test_sampled_equals_the_slow_twin(n_words: int, n_samples: int) -> None:
    head, x, targets = make(n_words, n=9)
    targets[:2] = torch.tensor([0, n_words - 1])
    for seed in range(5):
        sample = draw_log_uniform(n_words, n_samples, torch.Generator().manual_seed(seed))
        log_expected = sample.log_expected_count(torch.arange(n_words)).tolist()
        expected = []
        for row, target in zip(x.detach().numpy(), targets.tolist(), strict=True):
            scores = {
                k: row @ head.weight[k].detach().numpy() + head.bias[k].item() - log_expected[k]
                for k in {*sample.ids.tolist(), target}
            }
            expected.append(np.log(sum(np.exp(list(scores.values())))) - scores[target])
        losses = head.sampled(x, targets, n_samples, torch.Generator().manual_seed(seed))
        np.testing.assert_allclose(losses.detach().numpy(), expected, atol=1e-9)
        assert all(np.isfinite(g).all() for g in gradients(losses.sum(), x, head.weight, head.bias))


def test_gradients_of_rows_alone_are_the_same() -> None:
    head, x, targets = make(30)
    dense = gradients(head.sampled(x, targets, 10, torch.Generator().manual_seed(0)).mean(), head.weight, head.bias)
    head.sparse = True
    losses = head.sampled(x, targets, 10, torch.Generator().manual_seed(0))
    assert torch.autograd.grad(losses.mean(), head.weight, retain_graph=True)[0].is_sparse
    for a, b in zip(dense, gradients(losses.mean(), head.weight, head.bias), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def mean_gradients(loss: Callable[[torch.Generator], Tensor], of: Sequence[Tensor], n: int) -> list[np.ndarray]:
    """The mean over n samples."""
    generator = torch.Generator().manual_seed(0)
    return [np.mean(parts, axis=0) for parts in zip(*(gradients(loss(generator), *of) for _ in range(n)), strict=True)]


@pytest.mark.parametrize(("n_samples", "tolerance"), [(200, 0.09), (300, 0.045), (380, 0.018)])
def test_the_mean_gradient_approaches_that_of_the_full_softmax(n_samples: int, tolerance: float) -> None:
    """Of 400 words, with more samples ever closer: below that, a target that is seldom drawn is trained less hard."""
    head, x, targets = make(400, n=64)
    of = (x, head.weight, head.bias)
    exact = gradients(head(x, targets).mean(), *of)
    mean = mean_gradients(lambda generator: head.sampled(x, targets, n_samples, generator).mean(), of, 300)
    for actual, expected in zip(mean, exact, strict=True):
        assert np.linalg.norm(actual - expected) < tolerance * np.linalg.norm(expected)


@pytest.mark.parametrize("n_samples", [5, 20, 40])
@pytest.mark.parametrize("corrected", [True, False])
def test_a_model_that_is_right_stays(n_samples: int, corrected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With targets as probable as the model says, the full softmax has no gradient: nor has the mean of few samples.

    Without log Q it would have one: words that are drawn often would be pushed away.
    """
    if not corrected:
        monkeypatch.setattr(log_uniform.Sample, "log_expected_count", lambda self, ids: torch.zeros(len(ids)))
    head, x, _ = make(60, n=1)
    x = x.detach().expand(60, -1)
    p = head.log_probabilities(x[:1])[0].exp().detach()
    (mean,) = mean_gradients(
        lambda generator: (p * head.sampled(x, torch.arange(60), n_samples, generator)).sum(), [head.bias], 1000
    )
    assert np.abs(mean).sum() < 0.05 if corrected else np.abs(mean).sum() > 0.15


def test_low_precision_input_and_autocast_keep_full_precision_losses() -> None:
    head, x, targets = make(11, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = head(x, targets)
        losses.sum().backward()
    torch.testing.assert_close(losses, head(x, targets))
    assert head(x.bfloat16(), targets).dtype == torch.float32


def test_a_head_around_tensors() -> None:
    weight, bias = torch.randn(4, 3), torch.randn(4)
    head = assemble_head({"weight": weight, "bias": bias})
    assert isinstance(head, SoftmaxHead) and (head.n_words, head.dim) == (4, 3)
    assert head.weight.data_ptr() == weight.data_ptr() and not head.bias.requires_grad
    tiers = AdaptiveHead(n_words=20, dim=8, cutoffs=(3, 10))
    head = assemble_head(tiers.state_dict())
    assert isinstance(head, AdaptiveHead) and (head.n_words, head.dim) == (20, 8)
    x = torch.randn(6, 8)
    torch.testing.assert_close(head.log_probabilities(x), tiers.log_probabilities(x))
    assert not any(parameter.requires_grad for parameter in head.parameters())


@pytest.mark.parametrize("cutoffs", [None, (3, 10)])
def test_the_adaptive_softmax_is_a_distribution(cutoffs: tuple[int, ...] | None) -> None:
    head = AdaptiveHead(n_words=20, dim=8, cutoffs=cutoffs)
    x, targets = torch.randn(6, 8, requires_grad=True), torch.tensor([0, 2, 3, 9, 12, 19])
    log_p = head.log_probabilities(x)
    torch.testing.assert_close(log_p.exp().sum(dim=1), torch.ones(6))
    losses = head(x, targets)
    torch.testing.assert_close(losses, -log_p[range(6), targets])
    inputs = (x, *head.parameters())
    scale = torch.rand(6)
    for ours, autograd in zip(
        torch.autograd.grad((losses * scale).sum(), inputs),
        torch.autograd.grad(-(log_p[range(6), targets] * scale).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(ours, autograd)


def test_an_adaptive_softmax_whose_tiers_are_not_met() -> None:
    """Every parameter has a gradient even so, as processes that add theirs up expect."""
    head = AdaptiveHead(n_words=20, dim=8, cutoffs=(3, 10))
    head(torch.randn(2, 8), torch.tensor([0, 2])).mean().backward()
    assert all(parameter.grad is not None for parameter in head.parameters())


def test_cutoffs_of_the_adaptive_softmax() -> None:
    with torch.device("meta"):
        assert AdaptiveHead(n_words=50_000, dim=128).tiers.cutoffs == [2_000, 10_000, 50_000]
    with pytest.raises(ConfigError, match=r"cutoffs: expected ascending ids between 0 and 20, found \[5, 20\]"):
        AdaptiveHead(n_words=20, dim=8, cutoffs=(5, 20))
