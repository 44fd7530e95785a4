"""The CRF against all paths, one by one."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.tasks.shared.crf import IMPOSSIBLE, Constraints, Crf, viterbi
from elmokit.tasks.shared.tags import decode, encode

K = 3


def random_crf(seed: int, *, forbidden: bool) -> Crf:
    """Random scores; with `forbidden` some transitions are not allowed, but label 0 may always stand anywhere."""
    generator = torch.Generator().manual_seed(seed)
    rules = Constraints.none(K)
    if forbidden:
        rules.transitions[1:, 1:] = torch.where(torch.rand(K - 1, K - 1, generator=generator) < 0.5, IMPOSSIBLE, 0.0)
        rules.start[1] = rules.end[2] = IMPOSSIBLE
    crf = Crf(n_labels=K, constraints=rules)
    for parameter in crf.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return crf.double()


def score(crf: Crf, emissions: torch.Tensor, path: tuple[int, ...]) -> float:
    """The score of one path, term by term."""
    scores = crf.scores()
    total = scores.start[path[0]] + scores.end[path[-1]] + sum(emissions[t, label] for t, label in enumerate(path))
    total = total + sum(scores.transitions[a, b] for a, b in itertools.pairwise(path))
    return float(total.detach())


def all_scores(crf: Crf, emissions: torch.Tensor) -> dict[tuple[int, ...], float]:
    return {path: score(crf, emissions, path) for path in itertools.product(range(K), repeat=len(emissions))}


cases = given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3), seed=st.integers(0, 10**6), forbidden=st.booleans()
)


def batch(lengths: list[int], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    n = max(lengths) + 1  # one step of padding at least, and what is there must not matter
    emissions = torch.randn(len(lengths), n, K, generator=generator, dtype=torch.double) * 3
    mask = torch.arange(n) < torch.tensor(lengths)[:, None]
    return emissions, mask


@settings(max_examples=25, deadline=None)
@cases
def test_likelihood_is_that_among_all_paths(lengths: list[int], seed: int, forbidden: bool) -> None:
    crf = random_crf(seed, forbidden=forbidden)
    emissions, mask = batch(lengths, seed)
    labels = torch.randint(K, mask.shape, generator=torch.Generator().manual_seed(seed))
    found = crf(emissions, labels, mask).tolist()
    for b, n in enumerate(lengths):
        scores = all_scores(crf, emissions[b, :n])
        largest = max(scores.values())
        log_z = largest + math.log(sum(math.exp(value - largest) for value in scores.values()))
        assert found[b] == pytest.approx(scores[tuple(labels[b, :n].tolist())] - log_z, abs=1e-6)


@settings(max_examples=25, deadline=None)
@cases
def test_viterbi_finds_the_best_path(lengths: list[int], seed: int, forbidden: bool) -> None:
    crf = random_crf(seed, forbidden=forbidden)
    emissions, mask = batch(lengths, seed)
    for b, path in enumerate(crf.viterbi(emissions, mask)):
        scores = all_scores(crf, emissions[b, : lengths[b]])
        assert tuple(path) == max(scores, key=lambda path: scores[path])
        assert scores[tuple(path)] > IMPOSSIBLE / 2


@settings(max_examples=15, deadline=None)
@cases
def test_marginals_are_the_share_of_paths_through_a_label(lengths: list[int], seed: int, forbidden: bool) -> None:
    crf = random_crf(seed, forbidden=forbidden)
    emissions, mask = batch(lengths, seed)
    found = crf.marginals(emissions, mask)
    for b, n in enumerate(lengths):
        weights = {path: math.exp(value) for path, value in all_scores(crf, emissions[b, :n]).items()}
        for t, label in itertools.product(range(n), range(K)):
            through = sum(weight for path, weight in weights.items() if path[t] == label)
            assert float(found[b, t, label]) == pytest.approx(through / sum(weights.values()), abs=1e-6)


def test_gradients_are_right() -> None:
    crf = random_crf(1, forbidden=True)
    emissions, mask = batch([3, 1, 4], 1)
    labels = torch.zeros(mask.shape, dtype=torch.long)
    emissions.requires_grad_()
    assert torch.autograd.gradcheck(lambda e, *_: crf(e, labels, mask), (emissions, *crf.parameters()))


def test_confident_scores_stay_finite() -> None:
    crf = Crf(n_labels=9, constraints=Constraints.of_tags(["O", *(f"{p}-{x}" for x in "AB" for p in "BIES")], "BIOES"))
    emissions = torch.full((2, 5, 9), -200.0)
    emissions[:, :, 2] = 200.0  # inside of a span throughout, which is not allowed
    mask = torch.ones(2, 5, dtype=torch.bool)
    emissions.requires_grad_()
    loss = -crf(emissions, torch.zeros(2, 5, dtype=torch.long), mask).sum()
    loss.backward()
    assert math.isfinite(loss.item()) and torch.isfinite(emissions.grad).all()
    assert crf.viterbi(emissions.detach(), mask) == [[1, 2, 2, 2, 3]] * 2


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), scheme=st.sampled_from(["IOB2", "BIOES"]))
def test_constrained_paths_are_proper_tags(seed: int, scheme: str) -> None:
    prefixes = "BI" if scheme == "IOB2" else "BIES"
    tags = ["O", *(f"{prefix}-{kind}" for kind in ("R-A", "B") for prefix in prefixes)]
    emissions = torch.randn(4, 7, len(tags), generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(7) < torch.tensor([[7], [1], [0], [4]])
    paths = viterbi(emissions, mask, Constraints.of_tags(tags, scheme))  # type: ignore[arg-type]
    assert [len(path) for path in paths] == [7, 1, 0, 4]
    for path in paths:
        names = [tags[label] for label in path]
        assert encode(decode(names), len(names), scheme) == names  # type: ignore[arg-type]
