"""Without their packages, ONNX and Ray say what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmokit.cli import app
from elmokit.errors import MissingExtraError
from elmokit.integrations.onnx import OnnxElmo


@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [
        ("onnx", ["export", "onnx", "base", "OUT"], "elmokit[onnx]"),
        ("ray", ["embed", "README", "-o", "OUT", "--ray", "local"], "elmokit[ray]"),
    ],
)
def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, command: list[str], extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    monkeypatch.chdir(tmp_path)
    Path("README").write_text("A present .\n")
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2 and f"pip install '{extra}'" in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not Path("OUT").exists()


def test_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"elmokit\[onnx\]"):
        OnnxElmo("elmo.onnx")
