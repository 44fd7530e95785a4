"""A small random model as published files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from oracle import OracleState, embed, random_model


class Published:
    """A small model as published files, and what the oracle says about it."""

    def __init__(self, folder: Path, **shape: Any) -> None:
        self.options, self.weights = random_model(np.random.default_rng(7), **shape)
        self.files = str(folder / "options.json"), str(folder / "weights.hdf5")
        Path(self.files[0]).write_text(json.dumps(self.options))
        with h5py.File(self.files[1], "w") as file:
            for name, array in self.weights.items():
                file[name] = array

    def embed(self, sentence: list[str], state: OracleState | None = None) -> np.ndarray:
        return embed(sentence, self.options, self.weights, state)
