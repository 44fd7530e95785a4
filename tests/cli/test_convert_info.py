"""`elmo convert` and `elmo info` as commands."""

from __future__ import annotations

import json
import subprocess
import sys

import h5py
import many_langs
import models
import numpy as np
import oracle
import pytest
import typer
from typer.testing import CliRunner

from elmokit import weights
from elmokit.cli.convert import convert
from elmokit.cli.info import info
from elmokit.errors import ConfigError, FormatError, OutputError, naming_flags
from elmokit.nn.softmax import AdaptiveHead
from elmokit.weights import efml

app = typer.Typer()
app.command("convert")(convert)
app.command("info")(info)


def elmo(*arguments):
    """Run a command; errors come through as they are."""
    with naming_flags():  # as the whole command line does
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def source(tmp_path):
    options, arrays = oracle.random_model(np.random.default_rng(0))
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    with h5py.File(folder / "softmax_weights.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = np.ones((3, 6), "f4"), np.zeros(3, "f4")
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    return folder


def test_there_and_back(source, tmp_path):
    output = elmo("convert", source, tmp_path / "native")
    assert output.startswith(f"{tmp_path / 'native'}: bilm hdf5 to native, 4,") and output.count("\n") == 1
    elmo("convert", tmp_path / "native", tmp_path / "hdf5", "--to", "hdf5")
    assert sorted(path.name for path in (tmp_path / "hdf5").iterdir()) == [
        "README.md",
        "options.json",
        "softmax_weights.hdf5",
        "vocabulary.txt",
        "weights.hdf5",
    ]
    first, last = weights.load(source), weights.load(tmp_path / "hdf5")
    assert (first.fingerprint, first.vocabulary, first.license) == (last.fingerprint, last.vocabulary, last.license)
    assert (last.softmax().weight == first.softmax().weight).all()


def test_half(source, tmp_path):
    elmo("convert", source, tmp_path / "full")
    elmo("convert", source, tmp_path / "half", "--half")
    full, half = ((tmp_path / name / "weights.safetensors").stat().st_size for name in ("full", "half"))
    assert half < 0.6 * full
    with pytest.raises(ConfigError, match="--half: expected --to native"):
        elmo("convert", source, tmp_path / "other", "--half", "--to", "hdf5")


def test_to_allennlp(source, tmp_path):
    output = elmo("convert", source, tmp_path / "theirs", "--to", "allennlp")
    assert ": bilm hdf5 to allennlp, " in output and "parameters, without its softmax, " in output
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == ["README.md", "elmo.th", "options.json"]
    again = weights.load(tmp_path / "theirs")
    assert again.format == "AllenNLP state dict" and again.fingerprint == weights.load(source).fingerprint
    options, arrays = oracle.random_model(np.random.default_rng(0), skip=False)
    models.write(tmp_path / "other", options, arrays)
    with pytest.raises(OutputError, match="found a bilm hdf5 one that differs; save it in the native format"):
        elmo("convert", tmp_path / "other", tmp_path / "no", "--to", "allennlp")
    assert not (tmp_path / "no").exists()


def test_to_many_langs(source, tmp_path):
    folder = many_langs.write(tmp_path / "de", *many_langs.random_tensors())
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    elmo("convert", folder, tmp_path / "native")
    elmo("convert", tmp_path / "native", tmp_path / "back", "--to", "efml")
    first, last = weights.load(folder), weights.load(tmp_path / "back")
    assert last.format == "ELMoForManyLangs" and last.license == "mit"
    assert (first.fingerprint, first.vocabulary, first.alphabet) == (last.fingerprint, last.vocabulary, last.alphabet)
    for to, reason in (("hdf5", "has no HDF5 form"), ("allennlp", "found a ELMoForManyLangs one that differs")):
        with pytest.raises(OutputError, match=reason):
            elmo("convert", folder, tmp_path / "no", "--to", to)
    with pytest.raises(OutputError, match="expected a model with an alphabet of code points, found a bilm hdf5 one"):
        elmo("convert", source, tmp_path / "no", "--to", "efml")
    assert not (tmp_path / "no").exists()


def test_many_langs_dictionaries_hold_what_can_be_read_back(tmp_path):
    model = weights.load(many_langs.write(tmp_path / "de", *many_langs.random_tensors()))
    for word in ("a\tb", "a\nb", " ", "a\r"):
        model.vocabulary = (*many_langs.WORDS[:-1], word)
        with pytest.raises(OutputError, match=r"word\.dic: .* would not be read back"):
            efml.save(model, tmp_path / "no")
    weights.save(weights.load(tmp_path / "de"), tmp_path / "native")
    options = json.loads((tmp_path / "native" / "options.json").read_text())
    options["lstm"]["use_skip_connections"] = False
    (tmp_path / "native" / "options.json").write_text(json.dumps(options))
    with pytest.raises(OutputError, match="both projections and skip connections"):
        efml.save(weights.load(tmp_path / "native"), tmp_path / "no")


def test_a_softmax_in_tiers_stays_native(source, tmp_path):
    model = weights.load(source)
    model.read_softmax = lambda: AdaptiveHead(n_words=3, dim=6)
    weights.save(model, tmp_path / "tiers")
    with pytest.raises(OutputError, match="an adaptive softmax has no HDF5 form"):
        elmo("convert", tmp_path / "tiers", tmp_path / "no", "--to", "hdf5")
    elmo("convert", tmp_path / "tiers", tmp_path / "bare", "--to", "hdf5", "--no-softmax")
    assert not weights.load(tmp_path / "bare").has_softmax
    elmo("convert", tmp_path / "tiers", tmp_path / "again", "--half")
    assert isinstance(weights.load(tmp_path / "again").softmax(), AdaptiveHead)


def test_overwrite(source, tmp_path):
    elmo("convert", source, tmp_path / "m")
    with pytest.raises(OutputError, match="exists already"):
        elmo("convert", source, tmp_path / "m")
    elmo("convert", source, tmp_path / "m", "--overwrite", "--to", "hdf5")
    assert weights.load(tmp_path / "m").format == "bilm hdf5"


def test_a_model_can_replace_itself(source):
    before = weights.load(source).fingerprint
    elmo("convert", source, source, "--overwrite")
    after = weights.load(source)
    assert after.format == "native" and after.fingerprint == before and after.has_softmax


def test_info_as_json(source):
    facts = json.loads(elmo("info", source, "--json"))
    assert facts["parameters"] == weights.load(source).parameter_count
    expected = {"format": "bilm hdf5", "state": "warm", "license": "mit", "vocabulary": 3, "softmax": True, "mixes": 0}
    assert expected.items() <= facts.items()
    names = ["options.json", "weights.hdf5", "vocab.txt", "softmax_weights.hdf5"]
    assert facts["files"] == [str(source / name) for name in names]
    assert len(facts["fingerprint"]) == 64


def test_info_for_people(source):
    lines = elmo("info", source).splitlines()
    assert "format       bilm hdf5" in lines and "softmax      yes" in lines and "license      mit" in lines
    assert any("2 LSTM layers per direction, 12 cells, projected to 6" in line for line in lines)


def test_errors_are_ours(tmp_path):
    with pytest.raises(FormatError, match="found nothing there"):
        elmo("info", tmp_path / "missing")


@pytest.mark.parametrize("command", ["convert", "info"])
def test_help_has_an_example(command):
    assert f"elmo {command} elmo_weights.hdf5" in " ".join(elmo(command, "--help").split())


def test_commands_import_nothing_heavy():
    heavy = {"torch", "numpy", "h5py"}
    script = f"import sys, elmokit.cli.convert, elmokit.cli.info; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
