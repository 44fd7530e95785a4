"""Limits: defaults, factor, and the errors of exceeded ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elmokit.disk.limits import Limits, check_ratio, exceeded, limits, raise_limits
from elmokit.errors import ConfigError, FormatError


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    raise_limits(1)


def test_a_factor_applies_to_the_defaults_and_not_to_the_last_factor() -> None:
    raise_limits(10)
    raise_limits(2.5)
    assert limits() == Limits(**{name: int(2.5 * value) for name, value in vars(Limits()).items()})
    raise_limits(1)
    assert limits() == Limits()


@pytest.mark.parametrize("factor", [0, 0.9, -1, 1e7, float("nan"), float("inf")])
def test_factors_that_are_refused(factor: float) -> None:
    with pytest.raises(ConfigError, match="limits: expected a factor from 1 to 1000000"):
        raise_limits(factor)
    assert limits() == Limits()


def test_ratios() -> None:
    small, ratio = Limits().small, Limits().ratio
    check_ratio("x", 1, small)  # little text may be repetitive
    check_ratio("x", small, ratio * small)
    with pytest.raises(FormatError, match=r"x: refused, as 1 bytes unpack to 67,108,865 or more.*raise the limits"):
        check_ratio("x", 1, small + 1)
    with pytest.raises(FormatError, match="over 200 times as many"):
        check_ratio("x", small, ratio * small + 1)
    raise_limits(2)
    check_ratio("x", small, ratio * small + 1)


def test_the_error_names_the_remedy() -> None:
    assert str(exceeded("x", "too much")).startswith("x: too much; if that size is intended, raise the limits: ")
