"""Where the numbers are: in the memory of the CPU, or of a GPU."""

from __future__ import annotations

import torch

from elmokit.errors import ConfigError


def find_device(name: str | None = None) -> torch.device:
    """The device of that name, if it is there, as cpu, cuda, cuda:1, mps; without a name a GPU where there is one."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device).item()  # fails for what is not there, and for what holds no numbers, as "meta"
    except (RuntimeError, AssertionError, ImportError):
        raise ConfigError(
            f"--device: expected cpu, cuda, cuda:1 or mps, found {name!r}, which torch does not have here"
        ) from None
    return device
