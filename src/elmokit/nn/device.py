"""Devices: their choice by name, and the name of the CPU."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from elmokit.errors import ConfigError


def find_device(name: str | None = None) -> torch.device:
    """The device of that name, such as cpu, cuda, cuda:1 or mps; by default a GPU if available."""
    if name is not None and not isinstance(name, str | torch.device):
        raise ConfigError(f"--device: expected a name such as 'cpu' or 'cuda:0', found {name!r}")
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device).item()  # fails for missing devices, and for those without storage, such as "meta"
    except (RuntimeError, AssertionError, ImportError):
        raise ConfigError(f"--device: {_missing(name)}") from None
    return device


def cpu_name() -> str:
    """CPU model and vector extensions; the speed of int8 depends on VNNI."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    name = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "CPU")
    flags = next((line.split() for line in info if line.startswith("flags")), [])
    vnni = "VNNI" if any("vnni" in flag for flag in flags) else "no VNNI"
    return f"{name} ({torch.backends.cpu.get_cpu_capability()}, {vnni})"


def _missing(name: str | None) -> str:
    kind, _, number = str(name).partition(":")
    if number and not number.isdecimal():
        kind = ""
    if kind == "cuda" and not torch.cuda.is_available():
        why = "was built without CUDA" if torch.version.cuda is None else "sees no GPU; check nvidia-smi"
        return f"expected a GPU for {name!r}, found none: this torch {why}; use cpu"
    if kind == "cuda":
        return f"expected cuda:0 to cuda:{torch.cuda.device_count() - 1}, found {name!r}"
    if kind == "mps":
        return "expected an Apple GPU for 'mps', found none that this torch can use; use cpu"
    return f"expected cpu, cuda, cuda:1 or mps, found {name!r}, which torch does not have here"
