"""Log-uniform sampling against drawing one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ConfigError
from elmokit.nn.log_uniform import draw_log_uniform


def slow_draw(n_words: int, n_samples: int, seed: int) -> tuple[list[int], int]:
    """One by one, from the same random numbers."""
    generator = torch.Generator().manual_seed(seed)
    found: list[int] = []
    n_tries, size = 0, 2 * n_samples
    while True:
        for u in torch.rand(size, dtype=torch.double, generator=generator).tolist():
            n_tries += 1
            k = int(math.exp(u * math.log(n_words + 1))) - 1
            if k not in found:
                found.append(k)
            if len(found) == n_samples:
                return sorted(found), n_tries
        size = max(size, n_tries)


def log_expected(k: int, n_words: int, n_tries: int) -> float:
    p = (math.log(k + 2) - math.log(k + 1)) / math.log(n_words + 1)
    return math.log(1 - (1 - p) ** n_tries)


@given(st.data(), st.integers(2, 40), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_sampling_equals_drawing_one_by_one(data: st.DataObject, n_words: int, seed: int) -> None:
    n_samples = data.draw(st.integers(1, n_words - 1))
    sample = draw_log_uniform(n_words, n_samples, torch.Generator().manual_seed(seed))
    assert (sample.ids.tolist(), sample.n_tries) == slow_draw(n_words, n_samples, seed)
    counts = sample.log_expected_count(torch.arange(n_words))
    np.testing.assert_allclose(
        counts, [log_expected(k, n_words, sample.n_tries) for k in range(n_words)], atol=1e-8
    )  # fmt: skip


def test_words_are_drawn_by_zipf() -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.cat([draw_log_uniform(9, 1, generator).ids for _ in range(8_000)])
    p = np.log((np.arange(9) + 2) / (np.arange(9) + 1)) / np.log(10)
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(first.bincount(minlength=9) / 8_000, p, atol=0.017)  # 3 standard deviations


@pytest.mark.parametrize("n_samples", [0, 9, 10])
def test_a_sample_is_smaller_than_the_vocabulary(n_samples: int) -> None:
    with pytest.raises(ConfigError, match=f"expected 1 to 8, fewer than there are words, found {n_samples}"):
        draw_log_uniform(9, n_samples)
