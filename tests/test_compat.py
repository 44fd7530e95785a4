"""Old scripts run with not one line changed."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest
from published_model import Published

from elmokit import compat

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) for name in compat.LIBRARIES), reason="an old library is installed here"
)

SCRIPT = """
import sys
from allennlp.commands.elmo import ElmoEmbedder
from allennlp.modules.elmo import Elmo, batch_to_ids
from allennlp.modules.token_embedders import ElmoTokenEmbedder
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from allennlp.common.checks import ConfigurationError
from allennlp.common import Params
import allennlp.nn.util as util
import allennlp

options_file = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/x/options.json"
weight_file = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/x/weights.hdf5"

elmo = Elmo(options_file, weight_file, 1, dropout=0)
output = elmo(batch_to_ids([["First", "sentence", "."], ["Another"]]))
print(output["elmo_representations"][0].shape, (1 - output["mask"]).sum().item(), sys.argv[1:])
assert __name__ == "__main__" and allennlp.modules.elmo.Elmo is Elmo
"""


@pytest.fixture
def installed() -> Iterator[tuple[str, ...]]:
    yield compat.install()
    compat.uninstall()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elmokit.compat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_every_name_is_there(installed: tuple[str, ...]) -> None:
    assert installed == compat.LIBRARIES == compat.install()  # a second time changes nothing
    for name, sources in compat.MODULES.items():
        module = importlib.import_module(name)
        for attribute in " ".join(sources.values()).split():
            assert getattr(module, attribute) is not None
    with pytest.raises(ModuleNotFoundError, match=r"elmokit.compat has no allennlp.training; it covers ELMo only"):
        importlib.import_module("allennlp.training")
    with pytest.raises(ModuleNotFoundError, match=r"has no allennlp.modules.Seq2SeqEncoder"):
        exec("from allennlp.modules import Seq2SeqEncoder")


def test_uninstall_leaves_nothing() -> None:
    compat.install()
    importlib.import_module("allennlp.modules.elmo")
    compat.uninstall()
    assert not any(name.startswith("allennlp") for name in sys.modules)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("allennlp")


def test_a_library_that_is_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "simple_elmo.py").write_text("real = True")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert compat.install() == ("allennlp", "elmoformanylangs")
        assert importlib.import_module("simple_elmo").real
    finally:
        compat.uninstall()
        sys.modules.pop("simple_elmo", None)


def test_a_script_of_2018(tmp_path: Path) -> None:
    Published(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run(str(tmp_path / "script.py"), "--layers", "3", ELMOKIT_MODELS=str(tmp_path))
    assert done.stdout == "torch.Size([2, 3, 12]) 2 ['--layers', '3']\n", done.stderr
    done = run("--models", str(tmp_path), str(tmp_path / "script.py"), ELMOKIT_MODELS="")
    assert done.returncode == 0, done.stderr
    done = run(str(tmp_path / "script.py"), ELMOKIT_MODELS="")
    assert done.returncode == 2 and done.stderr.startswith(
        "elmokit.compat: error: published weights are not downloaded"
    )
    assert len(done.stderr.splitlines()) == 1
    done = run(str(tmp_path / "none.py"))
    assert done.returncode == 2 and "expected a Python file" in done.stderr


def test_commands_of_the_libraries(tmp_path: Path) -> None:
    model = Published(tmp_path)
    (tmp_path / "in.txt").write_text("a b\nc\n")
    out = tmp_path / "out.hdf5"
    files = ("--options-file", model.files[0], "--weight-file", model.files[1])
    done = run("-m", "allennlp", "elmo", str(tmp_path / "in.txt"), str(out), "--top", "--use-sentence-keys", *files)
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        assert {key: file[key].shape for key in file} == {"a b": (2, 12), "c": (1, 12)}
    (tmp_path / "in.txt").write_text("a b\n\n")
    done = run("-m", "allennlp", "elmo", str(tmp_path / "in.txt"), str(out), "--all", *files)
    assert done.returncode == 2 and "lines [1]" in done.stderr
    assert "--output_prefix" in run("-m", "elmoformanylangs", "test", "--help").stdout
