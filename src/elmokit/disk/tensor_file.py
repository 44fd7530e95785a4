"""Safetensors files, with checks of names, shapes, dtypes and finite values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmokit.disk.whole import new_file
from elmokit.errors import FormatError, first_line

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@dataclass(frozen=True)
class TensorSpec:
    """Expected shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32

    @classmethod
    def like(cls, tensor: Tensor) -> TensorSpec:
        """Spec of a tensor, which may be on the device "meta"."""
        return cls(tuple(tensor.shape), tensor.dtype)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Memory-mapped tensors of a file, and its metadata."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise FormatError(f"{path}: expected a safetensors file, found it damaged ({first_line(error)})") from None


def read_metadata(path: Path) -> dict[str, str]:
    """Metadata of a file; the tensors are not read."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise FormatError(f"{path}: expected a safetensors file, found it damaged ({first_line(error)})") from None


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], *, metadata: dict[str, str] | None = None, advice: str = ""
) -> None:
    """Write a safetensors file, atomically."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with new_file(path, advice=advice) as fresh:
        save_plain(stored, fresh, metadata)


def save_plain(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a new path with the permissions of the umask; a full disk raises an OSError."""
    path.touch()
    mode = path.stat().st_mode  # safetensors would restrict it to the owner
    try:
        save_file(tensors, path, metadata=metadata)
    except SafetensorError as error:
        raise OSError(first_line(error)) from None
    path.chmod(mode)


def check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, TensorSpec], label: str) -> None:
    """Raise a FormatError unless names, shapes and dtypes match exactly and all values are finite."""
    for name, spec in expected.items():
        if name not in tensors:
            raise FormatError(f"{label}: expected tensor {name} of shape {spec.shape}, found none")
        check_tensor(tensors[name], spec, name, label)
    if unknown := sorted(tensors.keys() - expected.keys()):
        raise FormatError(f"{label}: expected no tensor {unknown[0]}, found {tuple(tensors[unknown[0]].shape)}")


def check_tensor(tensor: Tensor, spec: TensorSpec, name: str, label: str) -> None:
    """Raise a FormatError unless a tensor has this shape and dtype, and finite values."""
    if tuple(tensor.shape) != spec.shape or tensor.dtype != spec.dtype:
        raise FormatError(
            f"{label}: expected {name} of shape {spec.shape} and {spec.dtype}, found {tuple(tensor.shape)} and "
            f"{tensor.dtype}"
        )
    if tensor.is_floating_point():
        require_finite(tensor, name, label)


def require_finite(tensor: Tensor, name: str, label: str) -> None:
    """Raise a FormatError for NaN or infinity. A sum is checked first, to avoid a temporary of the tensor's size."""
    if torch.isfinite(tensor.sum()):
        return
    rows = tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
    for i, row in enumerate(rows):  # the sum of finite numbers may overflow
        bad = torch.isfinite(row).logical_not().nonzero()
        if len(bad):
            value = row[bad[0, 0]].item()
            raise FormatError(f"{label}: expected finite numbers in {name}, found {value} in row {i}")
