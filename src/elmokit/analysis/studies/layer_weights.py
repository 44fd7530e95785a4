"""Learned layer weights of the scalar mixes (Peters et al. 2018, Figure 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmokit.analysis.shared.plots import heat_map
from elmokit.analysis.shared.results import ModelFacts
from elmokit.analysis.studies.study import run_model
from elmokit.errors import FormatError, InputError
from elmokit.tasks.runs.run_comparison import Group, read_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def layer_weights(folders: Sequence[Path]) -> tuple[dict[str, Any], ModelFacts]:
    """Layer weights of complete runs of any tasks, averaged over seeds, and their biLM.

    Runs without ELMo or with its top layer only have no weights, and are skipped.
    """
    return weights_of(read_groups(folders))


def weights_of(groups: Sequence[Group]) -> tuple[dict[str, Any], ModelFacts]:
    """Layer weights of groups that were read already."""
    learned = [group for group in groups if group.mixes and group.settings["mix"] == "all"]
    if not learned:
        raise InputError("expected runs with ELMo and all its layers, found none: only these have learned weights")
    models = {model.fingerprint: model for model in (run_model(group.record) for group in learned)}
    if len(models) > 1:
        names = " and ".join(f"{model.name} ({model.fingerprint[:12]})" for model in models.values())
        raise InputError(f"expected runs with one biLM, found {names}: layers of different biLMs are not comparable")
    several = Counter(group.task for group in learned)
    rows = [
        {
            "task": group.task,
            "place": place,
            "runs": [str(folder) for folder in group.folders],
            # distinguishes groups of one task
            "name": f"{group.task} {place}" + (f" ({group.folders[0].name})" if several[group.task] > 1 else ""),
            "weights": list(weights),
            "gamma": gamma,
        }
        for group in learned
        for place, (weights, gamma) in group.mixes.items()
    ]
    return {"rows": rows}, next(iter(models.values()))


def weights_map(facts: Mapping[str, Any]) -> Figure:
    """Heat map with one row per task and place, and one column per layer."""
    values = np.array([row["weights"] for row in facts["rows"]])
    if values.ndim != 2 or not values.size:
        raise FormatError("expected rows of as many weights as the model has layers, found none")
    names = [row["name"] for row in facts["rows"]]
    layers = [f"layer {j}" for j in range(values.shape[1])]
    return heat_map(values, names, layers, title="learned weights", value_name="weight", limits=(0.0, 1.0))
