"""Private operators: their checks, and the whole network without them."""

from __future__ import annotations

import ast
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import elmokit
from elmokit.nn.cpu import operators

BROKEN = bool(os.environ.get("BREAK_TORCH_OPERATORS"))
PACKAGE, TESTS = Path(elmokit.__file__).parent, Path(__file__).parents[1]


@pytest.fixture
def fresh() -> Iterator[None]:
    """Checks that are made again, before and after."""
    checks = operators.has_onednn, operators.has_derivatives, operators.has_int8
    for check in checks:
        check.cache_clear()
    yield
    for check in checks:
        check.cache_clear()


def test_what_is_broken_is_found() -> None:
    assert operators.has_onednn() == (torch.backends.mkldnn.is_available() and not BROKEN)
    assert operators.has_derivatives() == (not BROKEN)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("change", [lambda *_: None, lambda *_: torch.zeros(1), lambda x, *_: x, None])
def test_a_change_is_one_log_line(
    change: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another result, another shape, an exception, or no operator at all."""
    monkeypatch.setattr(operators, "_linear", change)
    monkeypatch.setattr(operators, "tanh_backward", change)
    monkeypatch.setattr(operators, "quantized_linear", change)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    with caplog.at_level(logging.WARNING, logger="elmokit"):
        for check in (operators.has_onednn, operators.has_derivatives, operators.has_int8):
            assert not check() and not check()
    assert len(caplog.records) == 3
    assert all("\n" not in record.getMessage() and "instead" in record.getMessage() for record in caplog.records)


@pytest.mark.usefixtures("fresh")
def test_the_checks_work_in_any_mode() -> None:
    if BROKEN:
        pytest.skip("nothing to find")
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert operators.has_derivatives()
        assert operators.has_onednn() == torch.backends.mkldnn.is_available()


def test_private_operators_stand_in_one_file() -> None:
    """Everything under `torch.ops`, and other names of torch that begin with an underscore."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if name.startswith(("torch.ops.", "torch._")) and name != "torch.__version__":
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"nn/cpu/operators.py"}


@pytest.mark.skipif(BROKEN, reason="this is that run")
def test_the_whole_room_works_without_them() -> None:
    """All tests of the network once more, with operators that compute other numbers (see conftest.py)."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", str(TESTS)]
    environment = {**os.environ, "BREAK_TORCH_OPERATORS": "1"}
    result = subprocess.run(command, cwd=TESTS.parents[1], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-3000:]
