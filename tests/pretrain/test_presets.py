"""Presets: the published shapes and their recipes."""

from __future__ import annotations

import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.pretrain.presets import PRESETS, get_preset


def test_published_presets() -> None:
    """Parameter counts as published, on allennlp.org/elmo: 13.6, 28.0 and 93.6 million."""
    from elmokit.weights.model import Model

    def count(name: str) -> int:
        config = PRESETS[name].config
        with torch.device("meta"):
            return Model(config=config, bilm=None).parameter_count  # type: ignore[arg-type]

    assert [count(name) for name in ("small", "medium", "original")] == [13_593_296, 28_027_728, 93_600_848]
    recipe = get_preset("original").settings
    assert (recipe.optimizer, recipe.learning_rate, recipe.clip, recipe.n_samples) == ("adagrad", 0.2, 10.0, 8192)
    assert recipe.preset == "original"
    with pytest.raises(ConfigError, match="tiny, light, base, small, medium, original"):
        get_preset("huge")
