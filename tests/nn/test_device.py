"""Devices by name."""

from __future__ import annotations

import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.nn.device import find_device


def test_the_cpu_is_always_there() -> None:
    assert find_device("cpu") == torch.device("cpu")
    assert find_device().type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["abacus", "cuda:x", "meta", "hpu", "vulkan"])
def test_what_is_not_there_is_told_in_one_line(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"device: expected cpu, cuda, cuda:1 or mps, found '{name}'") as caught:
        find_device(name)
    assert "\n" not in str(caught.value)


def test_numbers_are_not_names() -> None:
    with pytest.raises(ConfigError, match="device: expected a name such as 'cpu' or 'cuda:0', found 0"):
        find_device(0)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_without_a_gpu_the_message_says_so(name: str) -> None:
    with pytest.raises(ConfigError, match=f"device: expected a GPU for '{name}', found none: this torch .* use cpu"):
        find_device(name)
