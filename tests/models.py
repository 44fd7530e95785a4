"""Small random models as files, in the published layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import oracle

VARIANTS: dict[str, dict[str, Any]] = {
    "usual": {},
    "one layer": {"n_layers": 1},
    "three layers": {"n_layers": 3},
    "no skip connections": {"skip": False},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "tight clips": {"cell_clip": 0.4, "proj_clip": 0.3},
    "no projection in the LSTM": {"dim": 6, "projection_dim": 6},
    "no projection of tokens": {"filters": ((1, 2), (3, 4)), "projection_dim": 6},
    "no highway": {"n_highway": 0},
    "two highways, tanh": {"n_highway": 2, "activation": "tanh"},
    "short tokens": {"max_characters": 9},
    "wide filters": {"filters": ((1, 3), (7, 5)), "max_characters": 8},
    "words": {"n_words": 9},
}
VOCABULARY = ("<S>", "</S>", "<UNK>", "the", "a", "present", ".", "in", "Live")


def write(folder: Path, options: dict[str, Any], weights: dict[str, np.ndarray]) -> Path:
    """A folder with options.json, weights.hdf5 and, for models that read words, vocabulary.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in weights.items():
            file[name] = array
    if "char_cnn" not in options:
        (folder / "vocabulary.txt").write_text("".join(f"{word}\n" for word in VOCABULARY))
    return folder


def write_variant(folder: Path, name: str, seed: int = 0) -> tuple[Path, dict[str, Any], dict[str, np.ndarray]]:
    """The folder, and what was put into it, for the oracle."""
    options, weights = oracle.random_model(np.random.default_rng(seed), **VARIANTS[name])
    return write(folder, options, weights), options, weights
