"""Any path to a model; and paths to what is none."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest

from elmokit import weights
from elmokit.errors import FormatError
from elmokit.weights import locate


@pytest.fixture
def folder(tmp_path, write_hdf5, published):
    return write_hdf5(tmp_path / "m", *published, prefix="elmo_2x4096_512_2048cnn_2xhighway_")


def test_every_way_to_name_the_same_model(folder, tmp_path):
    options, model_file = sorted(folder.iterdir())
    weights.save(weights.load(folder), tmp_path / "native")
    fingerprints = {
        weights.load(model).fingerprint
        for model in (
            folder,
            str(folder),
            model_file,
            (options, model_file),
            [str(options), str(model_file)],
            tmp_path / "native",
            tmp_path / "native" / "weights.safetensors",
            tmp_path / "native" / "options.json",
        )
    }
    assert len(fingerprints) == 1


def test_names_do_not_matter(folder):
    options, model_file = sorted(folder.iterdir())
    options.rename(folder / "shape.json")
    model_file.rename(folder / "net.h5")
    (folder / "other.json").write_text('{"training": true}')
    (folder / "sentences.json").write_text('["a"]')
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        file["0"] = np.zeros((3, 2, 12))
    assert weights.load(folder).config.lstm.dim == 12
    assert weights.load(folder / "net.h5").config.lstm.dim == 12


def test_namesakes_belong_together(tmp_path, write_hdf5):
    for prefix, dim in (("small_", 10), ("large_", 14)):
        write_hdf5(tmp_path, *oracle.random_model(np.random.default_rng(0), dim=dim), prefix=prefix)
    assert weights.load(tmp_path / "small_weights.hdf5").config.lstm.dim == 10
    assert weights.load(tmp_path / "large_weights.hdf5").config.lstm.dim == 14
    with pytest.raises(FormatError, match=r"found 2 in large_weights.hdf5, small_weights.hdf5; leave one"):
        weights.load(tmp_path)
    (tmp_path / "large_weights.hdf5").rename(tmp_path / "net.hdf5")
    with pytest.raises(
        FormatError, match=r"expected one options file beside it, found large_options.json, small_options"
    ):
        weights.load(tmp_path / "net.hdf5")


def test_no_options(folder):
    next(folder.glob("*.json")).unlink()
    with pytest.raises(FormatError, match="expected one options file beside it, found none"):
        weights.load(folder)


def test_packaged_models(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(locate.resources, "files", lambda package: tmp_path / package)
    with pytest.raises(FormatError, match="elmokit/models: expected one packaged model, found none"):
        weights.load()
    weights.save(weights.load(folder), tmp_path / "elmokit" / "models" / "english-small")
    assert weights.load().format == "native"
    assert weights.load("english-small").fingerprint == weights.load().fingerprint
    with pytest.raises(FormatError, match="installed models: english-small"):
        weights.load("english-large")
    shutil.copytree(tmp_path / "elmokit" / "models" / "english-small", tmp_path / "elmokit" / "models" / "other")
    with pytest.raises(FormatError, match="found english-small, other"):
        weights.load()


@pytest.mark.parametrize("address", ["https://example.org/elmo.hdf5", "s3://bucket/elmo"])
def test_addresses_are_not_fetched(address):
    with pytest.raises(FormatError, match="download it first"):
        weights.load(address)
    with pytest.raises(FormatError, match="download it first"):
        weights.load(("options.json", address) if Path("options.json").exists() else (address, address))


def test_a_home_that_nobody_has():
    with pytest.raises(FormatError, match=r"~nobody-of-that-name/elmo: expected .*, found nothing there"):
        weights.load("~nobody-of-that-name/elmo")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found an empty file"),
        (b"just text\n", "found text starting with 'just text"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "found a git LFS pointer"),
        (b"\x00\x01\x02\x03binary", "found unknown binary data"),
        (b"\x1f\x8b\x08\x00", "found gzip"),
        (b'{"lstm": {}}', "found JSON"),
    ],
)
@pytest.mark.parametrize("whole_folder", [True, False])
def test_files_that_are_something_else(content, message, whole_folder, folder):
    path = next(folder.glob("*.hdf5"))
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message) as error:
        weights.load(folder if whole_folder else path)
    assert "\n" not in str(error.value)


def test_truncated_hdf5(folder):
    path = next(folder.glob("*.hdf5"))
    content = path.read_bytes()
    for size in (8, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(FormatError, match="expected an HDF5 file, found a truncated or damaged one") as error:
            weights.load(folder)
        assert "\n" not in str(error.value)


def test_damaged_hdf5_never_ends_in_a_foreign_error(folder):
    path = next(folder.glob("*.hdf5"))
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        for place in rng.integers(8, 6000, size=8):
            damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        with contextlib.suppress(FormatError):
            weights.load(folder)


def test_hdf5_of_another_program(folder):
    path = next(folder.glob("*.hdf5"))
    with h5py.File(path, "w") as file:
        file["model_weights/dense/kernel"] = np.zeros((2, 2))
        file["optimizer_weights/iterations"] = 3
    with pytest.raises(
        FormatError, match=r"expected biLM datasets \(char_embed.*found model_weights, optimizer_weights"
    ):
        weights.load(folder)


def test_folders_that_hold_no_model(tmp_path):
    with pytest.raises(FormatError, match=r"expected a native folder .*, found nothing"):
        weights.load(tmp_path)
    (tmp_path / "model.ckpt-10.index").write_bytes(b"")
    with pytest.raises(FormatError, match="found a TensorFlow checkpoint"):
        weights.load(tmp_path)
    with pytest.raises(FormatError, match="found nothing there"):
        weights.load(tmp_path / "missing")


def test_pairs_have_two_or_three_parts(folder):
    options, model_file = sorted(folder.iterdir())
    with pytest.raises(FormatError, match="found 1 paths"):
        weights.load((options,))
    with pytest.raises(FormatError, match="expected a file, as one of"):
        weights.load((options, folder))
    with pytest.raises(FormatError, match="expected JSON, found HDF5"):
        weights.load((model_file, options))


def test_native_models_load_without_h5py(folder, tmp_path):
    weights.save(weights.load(folder), tmp_path / "native")
    script = "import sys; from elmokit import weights; weights.load(sys.argv[1]); sys.exit('h5py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script, tmp_path / "native"], check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loading_holds_the_weights_once(tmp_path, write_hdf5):
    """A network of 56 MB: the peak may not hold it twice."""
    options, arrays = oracle.random_model(
        np.random.default_rng(0), dim=1024, projection_dim=256, n_layers=4, filters=((1, 200), (2, 300)), scale=0.1
    )
    folder = write_hdf5(tmp_path / "m", options, arrays)
    script = """if True:
        import re, sys
        from elmokit import weights
        from elmokit.weights import bilm_hdf5
        def peak():
            return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
        before = peak()
        model = weights.load(sys.argv[1])
        print(peak() - before)
    """
    result = subprocess.run([sys.executable, "-c", script, folder], check=True, capture_output=True, text=True)
    size = sum(array.nbytes for array in arrays.values()) / 2**20
    assert float(result.stdout) < 1.6 * size


def test_models_of_other_packages_have_names(folder, tmp_path, monkeypatch):
    package = tmp_path / "site" / "elmokit_xx"
    weights.save(weights.load(folder), package)
    (package / "__init__.py").write_text("")
    facts = tmp_path / "site" / "elmokit_xx-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: elmokit-xx\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[elmokit.models]\nxx = elmokit_xx\n")
    with pytest.raises(FormatError, match="xx: expected a model file or folder"):
        weights.load("xx")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert weights.load("xx").fingerprint == weights.load(folder).fingerprint
    with pytest.raises(FormatError, match=r"installed models: base, .*xx"):
        weights.load("nowhere")
