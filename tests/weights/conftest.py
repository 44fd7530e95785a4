"""Models written by hand in foreign layouts, and a way to run a loaded one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import oracle
import pytest
import torch

from elmokit.nn.packing import Packing
from elmokit.weights import Model

SENTENCE = ["Ein", "naïve", "test", "of", "<UNK>", "日本", "x" * 70]


def run_network(model: Model, characters: np.ndarray | None, words: np.ndarray | None) -> np.ndarray:
    """(L + 1, n, 2D) of one sentence whose marks are in the ids, and dropped from the result."""
    n = len(characters if characters is not None else words)  # type: ignore[arg-type]
    with torch.no_grad():
        vectors = model.bilm.token_encoder(
            None if characters is None else torch.tensor(characters), None if words is None else torch.tensor(words)
        )
        output = model.bilm(vectors, torch.arange(n), Packing.from_lengths([n]))
    return output.layers()[:, 1:-1].numpy()


@pytest.fixture
def run() -> Callable[..., np.ndarray]:
    """Run a model of the published kind on a sentence."""

    def run(model: Model, tokens: Sequence[str] = SENTENCE, vocabulary: Sequence[str] = ()) -> np.ndarray:
        marked = ["<S>", *tokens, "</S>"]
        characters = words = None
        if model.config.char_cnn is not None:
            length = model.config.char_cnn.max_characters
            characters = np.array([oracle.character_row(token, length) for token in marked]) + 1
        if model.config.n_words:
            words = np.array([vocabulary.index(t if t in vocabulary else "<UNK>") for t in marked])
        return run_network(model, characters, words)

    return run


@pytest.fixture
def write_hdf5() -> Callable[..., Path]:
    """Write options and weights as the published trainer does; returns the folder."""

    def write(folder: Path, options: Mapping[str, Any], weights: Mapping[str, np.ndarray], *, prefix: str = "") -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{prefix}options.json").write_text(json.dumps(options))
        with h5py.File(folder / f"{prefix}weights.hdf5", "w") as file:
            for name, array in weights.items():
                file.create_dataset(name, data=array)
        return folder

    return write


@pytest.fixture
def published() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A small model in the published layout."""
    return oracle.random_model(np.random.default_rng(0))
