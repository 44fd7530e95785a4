"""Old scripts run with not one line changed."""

from __future__ import annotations

import importlib
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def run(*arguments: str, timeout: float | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elmokit.compat", *arguments]
    environment = {**os.environ, **environment}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        output = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the session of this process, with its children
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, *output)


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


def test_a_missing_name_is_reported_by_elmokit(installed: tuple[str, ...]) -> None:
    message = r"elmokit.compat: allennlp.nn.util.masked_softmax is not covered; .*remove_sentence_boundaries"
    with pytest.raises(ImportError, match=message):
        exec("from allennlp.nn.util import masked_softmax")
    util = importlib.import_module("allennlp.nn.util")
    with pytest.raises(AttributeError, match=message):
        util.masked_softmax  # noqa: B018
    assert not hasattr(util, "masked_softmax") and not hasattr(util, "__wrapped__")
    with pytest.raises(AttributeError, match=r"allennlp.modules.Attention is not covered; this module has Elmo"):
        importlib.import_module("allennlp.modules").Attention  # noqa: B018
    names: dict[str, Any] = {}
    exec("from allennlp.modules import elmo, scalar_mix", names)  # modules of a package
    assert names["scalar_mix"].ScalarMix is names["elmo"].ScalarMix
    assert inspect.getmodule(test_a_missing_name_is_reported_by_elmokit) is not None  # searches all modules
    assert importlib.import_module("allennlp").__version__ == "2.10.1"


def test_uninstall_leaves_nothing() -> None:
    before = list(sys.path)
    compat.install()
    importlib.import_module("allennlp.modules.elmo")
    compat.uninstall()
    assert not any(name.startswith("allennlp") for name in sys.modules) and sys.path == before
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
    done = run("-m", "allennlp", "train", "config.json", "-s", "out")
    assert done.returncode == 2 and "only the command elmo of AllenNLP, found 'train'" in done.stderr


# The import lines run in every child process: `spawn` imports the script, and `forkserver` may do so in the server.
PROCESSES = """
import multiprocessing
import sys
from allennlp.common.file_utils import cached_path
from allennlp.modules.elmo import batch_to_ids
import simple_elmo

def shape(words):
    from allennlp.modules.token_embedders import ElmoTokenEmbedder
    return tuple(batch_to_ids([words]).shape), cached_path("https://x.org/models/options.json")

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map_async(shape, [["a"], ["b", "c"]]).get(timeout=90))
"""


@pytest.mark.parametrize("start_method", ["spawn", "forkserver", "fork"])
def test_child_processes_import_the_libraries(tmp_path: Path, start_method: str) -> None:
    if start_method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {start_method}")
    (tmp_path / "options.json").write_text("{}")
    (tmp_path / "script.py").write_text(PROCESSES)
    arguments = ("--models", str(tmp_path), str(tmp_path / "script.py"), start_method)
    done = run(*arguments, timeout=120, ELMOKIT_MODELS="", TMPDIR=str(tmp_path))
    path = str(tmp_path / "options.json")
    assert done.stdout == f"{[((1, 1, 50), path), ((1, 2, 50), path)]}\n", done.stderr
    assert not list(tmp_path.glob("elmokit-compat-*"))  # the placeholders are gone with the parent


@pytest.mark.parametrize("folder", [".", "libraries"])
def test_a_library_that_the_script_finds_comes_before_ours(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "simple_elmo.py").write_text("real = True")
    (tmp_path / "script.py").write_text(
        f"import sys; sys.path.append({str(tmp_path / folder)!r})\n"
        "import simple_elmo, allennlp\nprint(simple_elmo.real, allennlp.__version__)"
    )
    done = run(str(tmp_path / "script.py"))
    assert done.stdout == "True 2.10.1\n", done.stderr
