"""Files of text to files of vectors: the steps of one run."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from fake_elmo import DIM, FakeElmo

from elmokit.embed.embed_files import Progress, embed_files
from elmokit.errors import InputError
from elmokit.text.tokenizer import get_tokenizer


def test_vectors_are_those_of_the_model_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat sat\n\non the mat\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("the end .\n", encoding="utf-8")
    seen: list[Progress] = []
    done = embed_files(
        FakeElmo(),  # type: ignore[arg-type]
        [tmp_path / "a.txt", tmp_path / "b.txt"],
        tmp_path / "out.h5",
        chunk_characters=15,
        progress=seen.append,
    )
    assert (done.sentences, done.tokens) == (4, 9)
    assert [step.sentences for step in seen] == sorted(step.sentences for step in seen)
    expected = FakeElmo()
    with h5py.File(tmp_path / "out.h5") as file:
        for number, text in enumerate(["the cat sat", "", "on the mat", "the end ."]):
            assert file[str(number)].shape == (3, len(text.split()), DIM)
            np.testing.assert_array_equal(
                file[str(number)][()], expected._one(text, "all", get_tokenizer("words")).layers
            )


def test_a_missing_file_is_found_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat sat\n", encoding="utf-8")
    elmo = FakeElmo()
    with pytest.raises(InputError, match=r"b\.txt"):
        embed_files(elmo, [tmp_path / "a.txt", tmp_path / "b.txt"], tmp_path / "out.h5")  # type: ignore[arg-type]
    assert not elmo.calls and sorted(path.name for path in tmp_path.iterdir()) == ["a.txt"]
