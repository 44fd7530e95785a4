"""Tensors in safetensors files: there and back, damage, wrong shapes, numbers that are not finite, a full disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import torch
from full_disk import file_size_limit

from elmokit.disk.tensor_file import (
    TensorSpec,
    check_tensors,
    read_metadata,
    read_tensors,
    require_finite,
    save_plain,
    write_tensors,
)
from elmokit.errors import FormatError, OutputError


def some_tensors() -> dict[str, torch.Tensor]:
    return {"a": torch.arange(6.0).reshape(2, 3).t(), "b": torch.tensor([1, 2]), "c": torch.ones(3).half()}


def test_there_and_back(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", some_tensors(), metadata={"step": "3"})
    tensors, metadata = read_tensors(tmp_path / "t")
    assert metadata == read_metadata(tmp_path / "t") == {"step": "3"}
    assert all(torch.equal(tensors[name], tensor) for name, tensor in some_tensors().items())
    assert all(tensors[name].dtype == tensor.dtype for name, tensor in some_tensors().items())
    write_tensors(tmp_path / "t", {})
    assert read_tensors(tmp_path / "t") == ({}, {})


def test_a_parameter_is_stored_without_its_gradient(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", {"p": torch.nn.Parameter(torch.ones(2))})
    assert not read_tensors(tmp_path / "t")[0]["p"].requires_grad


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save_plain(some_tensors() | {"a": torch.ones(2)}, tmp_path / "t")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o644


@pytest.mark.parametrize("keep", [0, 4, 50, -1])
def test_damaged_files(tmp_path: Path, keep: int) -> None:
    write_tensors(tmp_path / "t", some_tensors())
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[:keep])
    for read in (read_tensors, read_metadata):
        with pytest.raises(FormatError, match="t: expected a safetensors file, found it damaged") as caught:
            read(tmp_path / "t")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match="expected a safetensors file"):
        read_tensors(tmp_path / name)


def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", {"a": torch.zeros(1)})
    with (
        file_size_limit(1000),
        pytest.raises(OutputError, match=r"t: cannot be written: .*; make room"),
    ):
        write_tensors(tmp_path / "t", {"a": torch.zeros(1000)}, advice="; make room")
    assert read_tensors(tmp_path / "t")[0]["a"].shape == (1,)
    assert os.listdir(tmp_path) == ["t"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": None}, r"x: expected tensor a of shape \(3, 2\), found none"),
        ({"a": torch.zeros(2, 3)}, r"x: expected a of shape \(3, 2\) and torch.float32, found \(2, 3\)"),
        ({"b": torch.zeros(2)}, r"x: expected b of shape \(2,\) and torch.int64, found \(2,\) and torch.float32"),
        ({"d": torch.zeros(1)}, r"x: expected no tensor d, found \(1,\)"),
        ({"a": torch.full((3, 2), float("nan"))}, "x: expected finite numbers in a, found nan in row 0"),
    ],
)
def test_tensors_that_do_not_fit(change: dict[str, torch.Tensor | None], message: str) -> None:
    expected = {name: TensorSpec.like(tensor) for name, tensor in some_tensors().items()}
    check_tensors(some_tensors(), expected, "x")
    changed = {name: tensor for name, tensor in (some_tensors() | change).items() if tensor is not None}
    with pytest.raises(FormatError, match=message):
        check_tensors(changed, expected, "x")


def test_finite_numbers_with_an_infinite_sum() -> None:
    tensor = torch.full((2, 2), 3e38)
    assert not torch.isfinite(tensor.sum())
    require_finite(tensor, "a", "x")
    require_finite(torch.tensor(1.0), "a", "x")
    tensor[1, 1] = float("-inf")
    with pytest.raises(FormatError, match="found -inf in row 1"):
        require_finite(tensor, "a", "x")
