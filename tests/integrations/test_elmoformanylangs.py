"""The drop-in for ELMoForManyLangs."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import many_langs
import numpy as np
import pytest

from elmokit import Elmo
from elmokit.errors import ElmoError
from elmokit.integrations.elmoformanylangs import Embedder, main, read_sentences

CONLL = """# text = das Haus
1-2\tdasHaus\t_
1\tdas\tx
2\tHaus\tx
2.1\tnull\t_

1\tda da\tx
2\t日\tx
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return many_langs.write(tmp_path / "zhs.model", *many_langs.random_tensors())


def test_layers(model: Path) -> None:
    embedder = Embedder(str(model), batch_size=2)
    sentences = [np.array(["das", "Haus"]), ["日"], ("dada", "das", "x")]
    layers = [found.layers for found in Elmo.from_pretrained(model).embed([list(map(str, s)) for s in sentences])]
    for output_layer in (-1, -2, 0, 1, 2):
        for found, wanted in zip(embedder.sents2elmo(sentences, output_layer), layers, strict=True):
            chosen = {-1: wanted.mean(axis=0), -2: wanted}.get(output_layer, wanted[max(0, output_layer)])
            np.testing.assert_allclose(found, chosen, atol=1e-5)
    with pytest.raises(ElmoError, match="from 0 to 2, found 3"):
        embedder.sents2elmo(sentences, 3)


def test_input_formats(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(CONLL, encoding="utf-8")
    assert read_sentences(file, "conll") == [["das", "Haus"], ["da da", "日"]]
    assert read_sentences(file, "conll_char")[0] == list("dasHaus")
    assert read_sentences(file, "conll_char_vi")[1] == ["da", "da", "日"]
    file.write_text("das\tHaus\n日\n", encoding="utf-8")
    assert read_sentences(file, "plain") == [["das", "Haus"], ["日"]]
    file.write_text("word\n", encoding="utf-8")
    with pytest.raises(ElmoError, match="expected an id, a tab and a word, found 'word'"):
        read_sentences(file, "conll")
    with pytest.raises(ElmoError, match="UTF-8"):
        read_sentences(tmp_path / "none", "plain")


def test_command(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(CONLL + "\n1\tdas\tx\n2\tHaus\tx\n\n1\tz.B.\tx\n2\t1/2\tx\n", encoding="utf-8")
    arguments = f"test --input_format conll --input {file} --model {model} --output_prefix {tmp_path}/out"
    monkeypatch.setattr(sys, "argv", ["x", *arguments.split(), "--output_layer", "-1,0", "--output_format", "hdf5,txt"])
    main()
    wanted = Embedder(model).sents2elmo([["das", "Haus"]], -1)[0]
    with h5py.File(tmp_path / "out.ly-1.hdf5") as vectors:
        assert sorted(vectors) == ["da da\t日", "das\tHaus", "z$period$B$period$\t1$backslash$2"]  # one of two equals
        np.testing.assert_allclose(vectors["das\tHaus"], wanted, atol=1e-5)
    lines = (tmp_path / "out.ly-1.txt").read_text(encoding="utf-8").split("\n")
    assert lines[0].split("\t")[0] == "das" and lines[2] == ""
    np.testing.assert_allclose([float(number) for number in lines[1].split("\t")[1:]], wanted[1], atol=1e-5)
    assert sorted(path.name for path in tmp_path.glob("*out*")) == [
        f"out.ly{layer}.{kind}" for layer in ("-1", "0") for kind in ("hdf5", "txt")
    ]
    monkeypatch.setattr(sys, "argv", ["x", *arguments.split(), "--output_layer", "top"])
    with pytest.raises(ElmoError, match="--output_layer"):
        main()
    monkeypatch.setattr(sys, "argv", ["x", *arguments.split(), "--output_layer", "0", "--output_format", "npz"])
    with pytest.raises(ElmoError, match="found 'npz'"):
        main()
