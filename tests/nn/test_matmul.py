"""The packed products against the plain one."""

from __future__ import annotations

import pytest
import torch

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.errors import ConfigError
from elmokit.nn.bilm import BiLM
from elmokit.nn.matmul import BlockedMatmul, Int8Matmul, Matmul
from elmokit.nn.packing import Packing


def make(n_in: int, n_out: int) -> Matmul:
    matmul = Matmul(n_in=n_in, n_out=n_out)
    torch.nn.init.normal_(matmul.weight, generator=torch.Generator().manual_seed(0))
    return matmul


@pytest.mark.parametrize(("n_in", "n_out"), [(1, 1), (5, 7), (64, 96), (128, 33)])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_blocked_is_exact(n_in: int, n_out: int, rows: int) -> None:
    plain = make(n_in, n_out)
    x, bias = torch.randn(rows, n_in), torch.randn(n_out)
    packed = plain.packed("float32")
    with torch.no_grad():
        torch.testing.assert_close(packed(x), plain(x), atol=1e-4, rtol=1e-5)
        torch.testing.assert_close(packed(x, bias), plain(x, bias), atol=1e-4, rtol=1e-5)
    if isinstance(packed, BlockedMatmul):
        assert torch.equal(packed.unpacked(), plain.weight)


def test_no_blocks_for_other_numbers() -> None:
    double = make(4, 4).double()
    assert double.packed("float32") is double


@pytest.mark.parametrize("rows", [1, 40])
def test_int8_is_close(rows: int) -> None:
    plain = make(128, 96)
    x, bias = torch.randn(rows, 128), torch.randn(96)
    with torch.no_grad():
        exact = plain(x, bias)
        error = (plain.packed("int8")(x, bias) - exact).norm() / exact.norm()
    assert 0 < error < 0.03  # 7 bits an input


def test_int8_rows_do_not_depend_on_each_other() -> None:
    product = make(128, 96).packed("int8")
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


def tiny() -> BiLM:
    char_cnn = CharCnnConfig(filters=((1, 3),), n_highway=1)
    config = ModelConfig(lstm=LstmConfig(dim=8, projection_dim=4), char_cnn=char_cnn)
    bilm = BiLM(config=config)
    for parameter in bilm.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(parameter.numel()))
    return bilm


def test_packing_a_network_changes_nothing_but_speed() -> None:
    bilm = tiny()
    names = list(bilm.state_dict())
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}
    words, packing = torch.randn(3, 4), Packing.from_lengths([4, 2])
    index = torch.tensor([0, 1, 2, 0, 1, 2])
    with torch.no_grad():
        expected = bilm(words, index, packing).layers()
        actual = bilm.pack_()(words, index, packing).layers()
    torch.testing.assert_close(actual, expected)
    after = bilm.unpacked_state_dict()
    assert sorted(after) == sorted(names)
    assert all(torch.equal(after[name], before[name]) for name in names)


def test_int8_cannot_be_turned_back() -> None:
    with pytest.raises(ConfigError, match="load the model again"):
        tiny().pack_("int8").unpacked_state_dict()
    with pytest.raises(ConfigError, match="load the model again"):
        tiny().pack_("int8").pack_("float32")  # else they would pass for exact ones


def test_kernels_that_are_not_there_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Didn't find engine\nCall stack: ...")

    monkeypatch.setattr(torch, "quantize_per_channel", fail)
    with pytest.raises(ConfigError, match=r"which fail here: Didn't find engine; use float32$"):
        tiny().pack_("int8")
