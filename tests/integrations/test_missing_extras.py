"""Integrations are imported only when used, and name the command that installs what they need."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from elmokit.errors import MissingExtraError


@pytest.mark.parametrize("package", ["sklearn", "spacy", "flair"])
def test_a_missing_package_names_its_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(f"elmokit.integrations.{package}")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'elmokit\[{package}\]'"):
        importlib.import_module(f"elmokit.integrations.{package}")


PLUGS = ["sklearn", "spacy", "flair", "pandas", "datasets", "gensim"]
PLUGS += ["ray", "onnx", "onnxruntime", "fastapi", "transformers", "sentence_transformers", "pyarrow"]


def test_elmokit_imports_none_of_them() -> None:
    code = (
        "import sys, elmokit; from elmokit import Elmo; "
        f"Elmo.from_pretrained().encode(['A present.']); print([name for name in {PLUGS} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
