"""AllenNLP's own tests of ELMo need nothing but their imports: allennlp_style.py makes their calls."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import models
import pytest
from oracle import OracleState, embed

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("allennlp") is not None, reason="the real AllenNLP is installed here"
)

SENTENCES = [["The cat sat .", "Ja !"], ["One", "a b c d e"], ["naïve words", "the end"]]


def run(folder: Path) -> None:
    """Run allennlp_style.py with pytest, with the fixtures in a folder."""
    tests = Path(__file__).with_name("allennlp_style.py")
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "elmokit.compat", "-m", "pytest", *options, str(tests)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=280,
    )
    assert done.returncode == 0 and "19 passed" in done.stdout, done.stdout + done.stderr


def test_with_a_random_model(tmp_path: Path) -> None:
    folder, options, weights = models.write_variant(tmp_path / "test_fixtures" / "elmo", "usual")
    (folder / "weights.hdf5").rename(folder / "lm_weights.hdf5")
    (folder / "sentences.json").write_text(json.dumps(SENTENCES))
    for row, sentences in enumerate(SENTENCES):
        state = OracleState()
        with h5py.File(folder / f"lm_embeddings_{row}.hdf5", "w") as file:
            for k, sentence in enumerate(sentences):
                top = embed(sentence.split(), options, weights, state)[2]  # (n, 2D)
                file[str(k)] = top.reshape(len(top), 2, -1).swapaxes(0, 1)
    run(tmp_path)


def test_with_the_published_fixture(shared_data: Path, tmp_path: Path) -> None:
    source, target = shared_data / "elmo" / "bilm-tf-fixture", tmp_path / "test_fixtures" / "elmo"
    if not source.is_dir():
        pytest.skip("the fixture of bilm-tf is not there")
    target.mkdir(parents=True)
    for name in ("options.json", "lm_weights.hdf5", "lm_embeddings_0.hdf5"):
        (target / name).symlink_to((source / name).resolve())
    (target / "sentences.json").symlink_to((source / "lm_embeddings_sentences.json").resolve())
    run(tmp_path)
