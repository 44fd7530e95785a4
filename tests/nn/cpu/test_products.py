"""Matrix products for CPUs against torch's own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.nn.cpu.products import (
    LARGEST_ROW_STEP,
    linear,
    onednn_matmul,
    pad_rows,
    prepacked_linear,
    round_rows,
    transposed_matmul,
    with_spare_rows,
)

dtypes = st.sampled_from([torch.float32, torch.double])


@given(n=st.integers(0, 70), n_in=st.integers(1, 20), n_out=st.integers(1, 20), dtype=dtypes)
@settings(max_examples=40, deadline=None)
def test_all_forms_agree(n: int, n_in: int, n_out: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(n)
    x, y = (torch.randn(n, size, generator=generator).to(dtype) for size in (n_in, n_out))
    weight, bias = (
        torch.randn(n_in, n_out, generator=generator).to(dtype),
        torch.randn(n_out, generator=generator).to(dtype),
    )
    close = {"atol": 1e-4, "rtol": 1e-4}
    for form in (linear, prepacked_linear):
        torch.testing.assert_close(form(weight)(x), x @ weight, **close)
        torch.testing.assert_close(form(weight, bias)(x), x @ weight + bias, **close)
    torch.testing.assert_close(onednn_matmul(x, weight), x @ weight, **close)
    torch.testing.assert_close(transposed_matmul(x, y), x.t() @ y, **close)
    more = torch.cat((y, y.new_zeros(3, n_out)))
    torch.testing.assert_close(transposed_matmul(x, more), x.t() @ y, **close)


def test_numbers_of_rows_are_few() -> None:
    rounded = [round_rows(n) for n in range(1, 2000)]
    assert all(n <= r < n + LARGEST_ROW_STEP for n, r in enumerate(rounded, start=1))
    assert rounded == sorted(rounded) and all(round_rows(r) == r for r in rounded)
    assert len(set(rounded)) < 80


@pytest.mark.parametrize("n", [1, 4, 5, 30, 33, 257])
def test_rows_are_added_as_zeros(n: int) -> None:
    x = torch.ones(n, 2)
    padded = pad_rows(x)
    assert len(padded) == round_rows(n) and torch.equal(padded[:n], x) and not padded[n:].any()
    spare = with_spare_rows(x)
    assert torch.equal(spare[:n], x) and not spare[n:].any()
    assert all(start + round_rows(n - start) <= len(spare) for start in range(n))
