"""Zips: both kinds that are published, and those that mean harm."""

from __future__ import annotations

import json
import zipfile

import h5py
import numpy as np
import oracle
import pytest
import torch

from elmokit import weights
from elmokit.errors import FormatError
from elmokit.weights import archive

SENTENCE = ["Ein", "naïve", "test", "of", "<UNK>", "日本", "x" * 70]


def zip_folder(folder, path, *, inside="", compression=zipfile.ZIP_DEFLATED, rename=None):
    with zipfile.ZipFile(path, "w", compression) as file:
        for child in folder.iterdir():
            file.write(child, inside + (rename or {}).get(child.name, child.name))
    return path


@pytest.mark.parametrize("inside", ["", "136/"])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_published_model(inside, compression, tmp_path, run, write_hdf5, published):
    folder = write_hdf5(tmp_path / "m", *published)
    with h5py.File(folder / "softmax_weights.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = np.ones((3, 6), "f4"), np.zeros(3, "f4")
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    (folder / "meta.json").write_text(json.dumps({"id": 136}))
    path = zip_folder(
        folder, tmp_path / "136.zip", inside=inside, compression=compression, rename={"weights.hdf5": "model.hdf5"}
    )
    model = weights.load(path)
    np.testing.assert_allclose(run(model), oracle.embed(SENTENCE, *published), atol=2e-5)
    assert model.vocabulary == ("<S>", "</S>", "<UNK>") and model.files == (path,)
    assert model.softmax().weight.shape == (3, 6)


def efml_folder(folder):
    """The smallest ELMoForManyLangs model: zeros."""
    folder.mkdir()
    marks = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    embedder = {
        "word_emb_layer.embedding.weight": torch.zeros(4, 2),
        "char_emb_layer.embedding.weight": torch.zeros(6, 3),
        "convolutions.0.weight": torch.zeros(5, 3, 1),
        "convolutions.0.bias": torch.zeros(5),
        "projection.weight": torch.zeros(4, 7),
        "projection.bias": torch.arange(4.0),
    }
    encoder = {}
    for name in ("forward_layer_0", "backward_layer_0"):
        encoder[f"{name}.input_linearity.weight"] = encoder[f"{name}.state_linearity.weight"] = torch.zeros(32, 4)
        encoder[f"{name}.state_linearity.bias"] = torch.zeros(32)
        encoder[f"{name}.state_projection.weight"] = torch.zeros(4, 8)
    torch.save(embedder, folder / "token_embedder.pkl")
    torch.save(encoder, folder / "encoder.pkl")
    (folder / "char.dic").write_text("".join(f"{mark}\t{i}\n" for i, mark in enumerate(marks)))
    (folder / "word.dic").write_text("<oov>\t0\n<bos>\t1\n<eos>\t2\n<pad>\t3\n")
    (folder / "config.json").write_text(json.dumps({"config_path": "/dead/cnn.json"}))
    return folder


def test_elmoformanylangs(tmp_path):
    folder = efml_folder(tmp_path / "cs")
    (tmp_path / "cnn.json").write_text("not to be read: it is beside the zip, not inside")
    model = weights.load(zip_folder(folder, tmp_path / "145.zip"))
    assert model.fingerprint == weights.load(folder).fingerprint
    assert model.bilm.token_encoder.projection_bias.tolist() == [0, 1, 2, 3]


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("options.json", json.dumps({"lstm": {}}))
        with file.open("model.hdf5", "w") as member:
            for _ in range(100):
                member.write(b"\x89HDF\r\n\x1a\n" + bytes(2**20))


def test_bombs_are_refused_by_what_they_claim(tmp_path):
    bomb(tmp_path / "bomb.zip")
    with pytest.raises(FormatError, match=r"refused, as .* bytes unpack to 104,8"):
        weights.load(tmp_path / "bomb.zip")


def patch_size(path, name, size):
    """Let both headers of a member claim another unpacked size."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        info = file.getinfo(name)
    content[info.header_offset + 22 : info.header_offset + 26] = size.to_bytes(4, "little")
    central = content.rindex(b"PK\x01\x02", 0, content.rindex(name.encode()))
    content[central + 24 : central + 28] = size.to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize("factor", [0.5, 2])
def test_a_member_that_lies_about_its_size(factor, tmp_path, write_hdf5, published):
    path = zip_folder(write_hdf5(tmp_path / "m", *published), tmp_path / "m.zip")
    with zipfile.ZipFile(path) as file:
        size = file.getinfo("weights.hdf5").file_size
    patch_size(path, "weights.hdf5", int(size * factor))
    with pytest.raises(FormatError, match=r"weights.hdf5"):
        weights.load(path)


def test_a_stream_without_end_is_cut(tmp_path):
    class Endless:
        def read(self, n):
            return b"x" * n

    with (tmp_path / "out").open("wb") as out, pytest.raises(FormatError, match="expected 10 bytes, found more"):
        archive._copy(Endless(), out, 10, "x")
    assert (tmp_path / "out").stat().st_size == 0


@pytest.mark.parametrize(
    "name", ["../weights.hdf5", "/etc/weights.hdf5", "a/../../weights.hdf5", "..\\weights.hdf5", "C:weights.hdf5"]
)
def test_names_that_lead_outside_are_passed_over(name, tmp_path, write_hdf5, published):
    folder = write_hdf5(tmp_path / "m", *published)
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as file:
        file.write(folder / "options.json", "options.json")
        info = zipfile.ZipInfo("x")
        info.filename = name
        file.writestr(info, (folder / "weights.hdf5").read_bytes())
    with pytest.raises(FormatError, match=r"m.zip: expected a native folder .*, found options.json"):
        weights.load(tmp_path / "m.zip")


def test_several_models_in_one_zip(tmp_path, write_hdf5, published):
    folder = write_hdf5(tmp_path / "m", *published)
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as file:
        for place in ("a", "b"):
            file.write(folder / "options.json", f"{place}/options.json")
    with pytest.raises(FormatError, match=r"options.json more than once"):
        weights.load(tmp_path / "m.zip")


def test_damaged_zips(tmp_path, write_hdf5, published):
    path = zip_folder(write_hdf5(tmp_path / "m", *published), tmp_path / "m.zip")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FormatError, match="truncated or damaged"):
        weights.load(path)
    damaged = bytearray(content)
    middle = len(content) // 2
    damaged[middle : middle + 100] = bytes(100)
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match=r"weights.hdf5: cannot be unpacked"):
        weights.load(path)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(FormatError, match="expected a native folder"):
        weights.load(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_in_other_compressions(compression, tmp_path, write_hdf5, published):
    folder = write_hdf5(tmp_path / "m", *published)
    content = bytearray(zip_folder(folder, tmp_path / "m.zip", compression=compression).read_bytes())
    middle = len(content) // 2
    content[middle : middle + 200] = bytes(200)
    (tmp_path / "m.zip").write_bytes(content)
    with pytest.raises(FormatError, match=r"weights.hdf5: cannot be unpacked into"):
        weights.load(tmp_path / "m.zip")
