"""One call from two sentences to a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_elmo import ToyElmo

from elmokit import EmbeddedSentence, similarity_map
from elmokit.errors import ConfigError


def shown(picture: object) -> np.ndarray:
    (image,) = picture.figure.axes[0].images  # type: ignore[attr-defined]
    return np.asarray(image.get_array())


def test_a_picture_of_all_pairs(tmp_path: Path) -> None:
    elmo = ToyElmo()
    picture = similarity_map("a play .", ["a", "game"], elmo=elmo)  # type: ignore[arg-type]
    a, b = (sentence.vectors for sentence in elmo.embed(["a play .", ["a", "game"]], layers="average"))
    expected = a @ b.T / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    np.testing.assert_allclose(shown(picture), expected, atol=1e-5)
    assert "picture.save(path)" in repr(picture)
    assert picture._repr_png_().startswith(b"\x89PNG")
    figure = picture.figure
    assert figure.texts[0].get_window_extent().x1 <= figure.bbox.x1  # the title of a small picture is not cut off
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    (sentence,) = elmo.embed(["a play ."], layers="average")
    np.testing.assert_allclose(np.diag(shown(similarity_map(sentence))), 1, atol=1e-5)
    with pytest.raises(ConfigError, match="expected sentences with tokens"):
        similarity_map(EmbeddedSentence([], np.zeros((1, 0, 4))))
    with pytest.raises(ConfigError, match="layers: expected"):
        similarity_map("a", layers="all")
