"""Packed products against the plain one."""

from __future__ import annotations

import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.nn.cpu import operators
from elmokit.nn.cpu.packed_matmul import Int8Matmul, PackedMatmul, Precision, packed
from elmokit.nn.matmul import Matmul

onednn = pytest.mark.skipif(not operators.has_onednn(), reason="oneDNN's linear operators cannot be used")


def pack(matmul: Matmul, precision: Precision) -> PackedMatmul:
    product = packed(matmul.weight, precision)
    assert product is not None
    return product


def make(n_in: int, n_out: int) -> Matmul:
    matmul = Matmul(n_in=n_in, n_out=n_out)
    torch.nn.init.normal_(matmul.weight, generator=torch.Generator().manual_seed(0))
    return matmul


@pytest.mark.parametrize(("n_in", "n_out"), [(1, 1), (5, 7), (64, 96), (128, 33)])
@pytest.mark.parametrize("rows", [1, 3, 40])
@onednn
def test_float32_is_exact(n_in: int, n_out: int, rows: int) -> None:
    plain = make(n_in, n_out)
    x, bias = torch.randn(rows, n_in), torch.randn(n_out)
    product = pack(plain, "float32")
    with torch.no_grad():
        torch.testing.assert_close(product(x), plain(x), atol=1e-4, rtol=1e-5)
        torch.testing.assert_close(product(x, bias), plain(x, bias), atol=1e-4, rtol=1e-5)
    assert torch.equal(product.state_dict()["weight"], plain.weight)


def test_other_numbers_stay_as_they_are() -> None:
    assert packed(make(4, 4).weight.double(), "float32") is None


@pytest.mark.parametrize("rows", [1, 40])
def test_int8_is_close(rows: int) -> None:
    plain = make(128, 96)
    x, bias = torch.randn(rows, 128), torch.randn(96)
    with torch.no_grad():
        exact = plain(x, bias)
        error = (pack(plain, "int8")(x, bias) - exact).norm() / exact.norm()
    assert 0 < error < 0.03  # 7 bits an input


def test_int8_rows_do_not_depend_on_each_other() -> None:
    product = pack(make(128, 96), "int8")
    x = torch.randn(30, 128, generator=torch.Generator().manual_seed(1)) * torch.logspace(-3, 3, 30).unsqueeze(1)
    alone = torch.cat([product(row) for row in x.split(1)])
    torch.testing.assert_close(product(x), alone, rtol=1e-6, atol=0)
    assert product(torch.zeros(1, 128)).abs().max() == 0


def test_int8_does_not_overflow() -> None:
    """All weights and inputs at their largest: pairs of products must not saturate at 16 bits."""
    matmul = Matmul(n_in=256, n_out=16)
    torch.nn.init.ones_(matmul.weight)
    y = Int8Matmul(matmul.weight)(torch.ones(2, 256))
    torch.testing.assert_close(y, torch.full((2, 16), 256.0), rtol=0.01, atol=0)


def test_int8_cannot_be_turned_back() -> None:
    with pytest.raises(ConfigError, match="load the model again"):
        pack(make(8, 8), "int8").state_dict()


def test_int8_without_its_kernels_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "has_int8", lambda: False)
    with pytest.raises(ConfigError, match=r"int8 needs torch's quantized kernels, which fail here; use float32$"):
        pack(make(8, 8), "int8")
