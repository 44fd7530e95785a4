"""Parts of the training data: nested, of the right size, and the same every time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.runs.subset import subset
from elmokit.tasks.shared.task_settings import FitSettings


@given(
    n=st.integers(1, 300), small=st.floats(0.01, 1), large=st.floats(0.01, 1), seed=st.integers(0, 9)
)  # fmt: skip
def test_a_smaller_part_is_inside_a_larger_one(n: int, small: float, large: float, seed: int) -> None:
    small, large = sorted((small, large))
    if round(small * n) == 0:
        return
    less, more = (subset(range(n), part, seed) for part in (small, large))
    assert set(less) <= set(more) and len(less) == round(small * n) and len(more) == round(large * n)
    assert less == sorted(less)  # the order of the file
    assert less == subset(range(n), small, seed)


def test_the_whole_is_the_whole_and_seeds_differ() -> None:
    assert subset("abc", 1.0, 0) == ["a", "b", "c"]
    assert len({tuple(subset(range(100), 0.1, seed)) for seed in range(5)}) == 5


def test_a_part_without_examples_is_refused() -> None:
    with pytest.raises(InputError, match=r"train_fraction: expected a part of the 200 training .* found 0.001"):
        subset(range(200), 0.001, 0)
    assert len(subset(range(600), 0.001, 0)) == 1
    assert subset([], 0.5, 0) == []
    for wrong in (1.1, -0.1):
        with pytest.raises(ConfigError, match="train_fraction: expected at"):
            FitSettings(train_fraction=wrong)
