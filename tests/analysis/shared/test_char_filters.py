"""Winning n-grams, nearest spellings, and maps."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest
import torch

from elmokit import Elmo, weights
from elmokit.analysis.search.vocabulary_neighbors import VocabularyNeighbors
from elmokit.analysis.shared.char_filters import CharFilters
from elmokit.analysis.shared.map_projection import project
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, InputError


@pytest.mark.parametrize("name", ["usual", "two highways, tanh", "short tokens", "wide filters"])
def test_activations_are_those_of_the_token_encoder(tmp_path: Path, name: str) -> None:
    """Through the rest of the encoder they give the very vector of the word."""
    folder, _, _ = models.write_variant(tmp_path, name)
    model = weights.load(folder)
    filters, encoder = CharFilters(model), model.bilm.token_encoder
    for word in ("beautiful", "눈이", "a", "x" * 60):
        found = filters.explain(word)
        ids = WordReader(model)([word])
        with torch.inference_mode():
            expected = encoder(ids.characters, ids.words)
            ours = encoder.combine(torch.tensor([found["activations"]], dtype=torch.float32), None)
        assert torch.allclose(ours, expected, atol=1e-5)
        assert len(found["widths"]) == len(found["starts"]) == len(found["strengths"]) == len(found["activations"])
        assert found["symbols"][0]["text"] == "^" and found["symbols"][-1]["text"] == "$"
        assert len(found["symbols"]) == int((ids.characters[0] != 261).sum())


def test_word_models_have_no_filters(tmp_path: Path) -> None:
    folder, _, _ = models.write_variant(tmp_path, "words")
    with pytest.raises(ConfigError, match="whole words"):
        CharFilters(weights.load(folder))


def test_nearest_spellings() -> None:
    elmo = Elmo.from_pretrained()
    near = VocabularyNeighbors(elmo)
    found = near.find("playing", 5)
    assert len(near.words) == 5000 and "playing" not in [one.word for one in found]
    a, b = (s.vectors[0] for s in elmo.embed([["playing"], [found[0].word]], layers=0))
    assert np.isclose(found[0].similarity, a @ b / np.linalg.norm(a) / np.linalg.norm(b), atol=1e-5)
    assert [one.similarity for one in found] == sorted((one.similarity for one in found), reverse=True)


def test_pca_keeps_the_largest_distances() -> None:
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(20, 2)) * [5, 2]
    vectors = plane @ np.linalg.qr(rng.normal(size=(7, 7)))[0][:2] + 3
    points = project(vectors)
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    assert np.allclose(distances, np.linalg.norm(plane[:, None] - plane[None], axis=-1))
    with pytest.raises(InputError, match="a map needs 3 points"):
        project(vectors[:2])
