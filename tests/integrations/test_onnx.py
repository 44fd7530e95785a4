"""ONNX export: the graph equals the engine for every kind of model, and runs without torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import many_langs
import models
import numpy as np
import pytest
from typer.testing import CliRunner

from elmokit import Elmo
from elmokit.cli import app
from elmokit.errors import ConfigError, FormatError, InputError, OutputError

onnx = pytest.importorskip("onnx", reason="needs elmokit[onnx]")
pytest.importorskip("onnxruntime", reason="needs elmokit[onnx]")

from elmokit.integrations import onnx_export  # noqa: E402 (after the packages that it needs)
from elmokit.integrations.onnx import OnnxElmo  # noqa: E402

SENTENCES: list[Any] = [
    "I will buy you a present .",
    "",
    ["Live", "in", "the", "present", "!"],
    ["Straße"] * 37,
    ["x"],
]
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "onnx.md"


def largest_difference(first: Any, second: Any) -> float:
    pairs = list(zip(first, second, strict=True))
    assert all(a.tokens == b.tokens and a.offsets == b.offsets and a.text == b.text for a, b in pairs)
    return max(float(np.abs(a.layers - b.layers).max(initial=0)) for a, b in pairs)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "elmo.onnx"
    result = CliRunner().invoke(app, ["export", "onnx", "base", str(path), "--half"])
    assert result.exit_code == 0, result.output
    assert "equals the engine" in result.output and "changed" not in result.output  # its weights are 16-bit numbers
    return path


def test_the_packaged_model(packaged: Path) -> None:
    elmo, exported = Elmo.from_pretrained(), OnnxElmo(packaged)
    assert largest_difference(elmo.embed(SENTENCES), exported.embed(SENTENCES)) < 1e-5
    assert exported.fingerprint == elmo.model.fingerprint and exported.license == elmo.model.license
    assert packaged.stat().st_size < 0.6 * 4 * elmo.model.parameter_count


@pytest.mark.parametrize("layers", ["top", "average", 1, [0.5, 0.25, 0.25]])
def test_combinations_of_layers(packaged: Path, layers: Any) -> None:
    elmo, exported = Elmo.from_pretrained(), OnnxElmo(packaged, threads=1)
    assert largest_difference(elmo.embed(SENTENCES, layers=layers), exported.embed(SENTENCES, layers=layers)) < 1e-5


def test_encode(packaged: Path) -> None:
    elmo, exported = Elmo.from_pretrained(), OnnxElmo(packaged)
    np.testing.assert_allclose(exported.encode("A present."), elmo.encode("A present."), atol=1e-5)
    texts = ["A present.", "", "Money in the bank!"]
    found = exported.encode(texts, pool="max", punctuation=False)
    np.testing.assert_allclose(found, elmo.encode(texts, pool="max", punctuation=False), atol=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 7, 100])
def test_vectors_do_not_depend_on_the_batch(packaged: Path, batch_tokens: int) -> None:
    exported = OnnxElmo(packaged)
    small = exported.embed(SENTENCES, batch_tokens=batch_tokens)
    assert largest_difference(exported.embed(SENTENCES), small) < 1e-5


def test_padding_is_zero(packaged: Path) -> None:
    layers = OnnxElmo(packaged).run([["a", "b", "c"], ["a"]])
    assert layers.shape == (2, 3, 3, Elmo.from_pretrained().config.vector_dim)
    assert not layers[1, :, 1:].any() and layers[1, :, 0].all() and layers[0].all()


@pytest.mark.parametrize(("name", "state"), [("usual", "reset"), *((name, "warm") for name in models.VARIANTS)])
def test_every_shape(tmp_path: Path, name: str, state: Any) -> None:
    folder, _, _ = models.write_variant(tmp_path / "model", name)
    elmo = Elmo.from_pretrained(folder, state=state)
    found = onnx_export.export_onnx(elmo, tmp_path / "model.onnx")
    assert found["engine"] < 1e-5 and found["rounding"] == 0
    assert largest_difference(elmo.embed(SENTENCES), OnnxElmo(tmp_path / "model.onnx").embed(SENTENCES)) < 1e-5


def test_words_and_code_points(tmp_path: Path) -> None:
    embedder, encoder = many_langs.random_tensors()
    folder = many_langs.write(
        tmp_path / "model", embedder, encoder, files=[("configs/cnn.json", many_langs.architecture())]
    )
    elmo = Elmo.from_pretrained(folder, state="reset")
    onnx_export.export_onnx(elmo, tmp_path / "model.onnx")
    sentences = [many_langs.SENTENCE, ["Haus", "unbekannt"]]
    assert largest_difference(elmo.embed(sentences), OnnxElmo(tmp_path / "model.onnx").embed(sentences)) < 1e-5


def test_a_vocabulary_without_the_unknown_word(tmp_path: Path) -> None:
    folder, _, _ = models.write_variant(tmp_path / "model", "words")
    words = (folder / "vocabulary.txt").read_text().replace("<UNK>", "other")
    (folder / "vocabulary.txt").write_text(words)
    elmo = Elmo.from_pretrained(folder, state="reset")
    assert onnx_export.export_onnx(elmo, tmp_path / "model.onnx")["engine"] < 1e-5


def test_rounding_is_reported(tmp_path: Path) -> None:
    folder, _, _ = models.write_variant(tmp_path / "model", "usual")
    elmo = Elmo.from_pretrained(folder)
    found = onnx_export.export_onnx(elmo, tmp_path / "model.onnx", half=True)
    assert found["engine"] < 1e-5 < found["rounding"]
    result = CliRunner().invoke(app, ["export", "onnx", str(folder), str(tmp_path / "half.onnx"), "--half"])
    assert "rounding to 16 bits changed vectors by" in result.output


def test_a_wrong_graph_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with the engine finds a graph whose numbers are wrong, and leaves no file."""
    right = onnx_export.build

    def wrong(elmo: Elmo, *, half: bool = False) -> Any:
        model = right(elmo, half=half)
        (bias,) = [weight for weight in model.graph.initializer if weight.name == "backward_layers.1.bias"]
        bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + np.float32(1e-3), bias.name))
        return model

    monkeypatch.setattr(onnx_export, "build", wrong)
    with pytest.raises(OutputError, match="expected the vectors of the engine to 1e-05, found a difference of"):
        onnx_export.export_onnx(Elmo.from_pretrained(), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_torch_stays_out(packaged: Path) -> None:
    code = (
        "import sys; from elmokit.integrations.onnx import OnnxElmo; "
        f"vectors = OnnxElmo({str(packaged)!r}).encode('I will buy you a present.'); "
        "print(json.dumps([vectors.tolist(), [m for m in ('torch', 'h5py', 'onnx', 'typer') if m in sys.modules]]))"
    )
    result = subprocess.run([sys.executable, "-c", f"import json; {code}"], capture_output=True, text=True, check=True)
    vectors, imported = json.loads(result.stdout)
    assert imported == []
    np.testing.assert_allclose(vectors, Elmo.from_pretrained().encode("I will buy you a present."), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "out.onnx"], "nowhere"),
        (["base", "missing/out.onnx"], "expected a file in a folder that exists"),
        (["base", "there.onnx"], "exists already"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.onnx").write_text("mine")
    result = CliRunner().invoke(app, ["export", "onnx", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr and len(result.stderr.splitlines()) == 1
    assert Path("there.onnx").read_text() == "mine"


def test_a_carried_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected reset or warm for ONNX, found carry"):
        onnx_export.export_onnx(Elmo.from_pretrained(state="carry"), tmp_path / "model.onnx")


def test_files_that_are_something_else(tmp_path: Path, packaged: Path) -> None:
    with pytest.raises(InputError, match="write one with elmo export onnx"):
        OnnxElmo(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("text")
    with pytest.raises(FormatError, match="expected an ONNX file"):
        OnnxElmo(tmp_path / "text.onnx")
    stripped = onnx.load(packaged)
    del stripped.metadata_props[:]
    onnx.save(stripped, tmp_path / "stripped.onnx")
    with pytest.raises(FormatError, match="without its metadata"):
        OnnxElmo(tmp_path / "stripped.onnx")
    for text, message in [
        ("{", "expected JSON"),
        ("[]", "of format 1"),
        ('{"format": 1, "state": "x"}', "options, voc"),
    ]:
        onnx.helper.set_model_props(stripped, {"elmokit": text})
        onnx.save(stripped, tmp_path / "damaged.onnx")
        with pytest.raises(FormatError, match=message):
            OnnxElmo(tmp_path / "damaged.onnx")
    with pytest.raises(ConfigError, match="providers: expected some of"):
        OnnxElmo(packaged, providers=["NoSuchProvider"])
    with pytest.raises(ConfigError, match="this model has 0 to 2"):
        OnnxElmo(packaged).embed(["a"], layers=3)


def test_the_page(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block of the page runs, in a folder with the file that its first command writes."""
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(packaged.parent)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
