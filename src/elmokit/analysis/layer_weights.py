"""Which layers the tasks chose: the learnt weights of their mixes (Peters et al. 2018, Figure 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmokit.analysis.plots import heat_map
from elmokit.analysis.results import ModelFacts
from elmokit.analysis.study import run_model
from elmokit.errors import InputError
from elmokit.tasks.compare import Group, read_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def layer_weights(folders: Sequence[Path]) -> tuple[dict[str, Any], ModelFacts]:
    """The weights in complete runs of any tasks, with the mean over seeds, and the biLM whose layers they are of.

    Runs without ELMo or with its top layer alone have no weights, and are left out.
    """
    return weights_of(read_groups(folders))


def weights_of(groups: Sequence[Group]) -> tuple[dict[str, Any], ModelFacts]:
    """The same of groups that were read already."""
    learnt = [group for group in groups if group.mixes and group.settings["mix"] == "all"]
    if not learnt:
        raise InputError("expected runs with ELMo and all its layers, found none: only these have learnt weights")
    models = {model.fingerprint: model for model in (run_model(group.record) for group in learnt)}
    if len(models) > 1:
        names = " and ".join(f"{model.name} ({model.fingerprint[:12]})" for model in models.values())
        raise InputError(f"expected runs with one biLM, found {names}: their layers are not the same")
    several = Counter(group.task for group in learnt)
    rows = [
        {
            "task": group.task,
            "place": place,
            "runs": [str(folder) for folder in group.folders],
            # what tells groups of one task apart
            "name": f"{group.task} {place}" + (f" ({group.folders[0].name})" if several[group.task] > 1 else ""),
            "weights": list(weights),
            "gamma": gamma,
        }
        for group in learnt
        for place, (weights, gamma) in group.mixes.items()
    ]
    return {"rows": rows}, next(iter(models.values()))


def weights_map(facts: Mapping[str, Any]) -> Figure:
    """A row for every task and place, a column for every layer."""
    values = np.array([row["weights"] for row in facts["rows"]])
    names = [row["name"] for row in facts["rows"]]
    layers = [f"layer {j}" for j in range(values.shape[1])]
    return heat_map(values, names, layers, title="learnt weights", value_name="weight", limits=(0.0, 1.0))
