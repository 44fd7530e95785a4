"""Ablation of layers and of where ELMo is added (Peters et al. 2018, Tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elmokit.analysis.studies.study import Outcome, Variant, gain, scores_of
from elmokit.tasks.shared.task_settings import FitSettings, Mix, Place

BASELINE = "no ELMo"
VARIED = ("elmo", "mix", "mix_l2", "seed")  # settings fixed by the study
LAMBDA = 0.001  # the weaker of the two L2 penalties, used to compare places

Tables = dict[str, dict[str, Variant]]  # by table, then by row


def tables(settings: FitSettings) -> Tables:
    """Variants: layers at the place of the settings, and places with all layers; the two tables share a variant."""
    baseline = Variant("baseline", {"elmo": False})
    place = settings.elmo_at
    return {
        "layers": {
            BASELINE: baseline,
            "top layer": _variant("top", None, place),
            "all layers, lambda 1": _variant("all", 1.0, place),
            "all layers, lambda 0.001": _variant("all", LAMBDA, place),
        },
        "places": {
            "input": _variant("all", LAMBDA, "input"),
            "input and output": _variant("all", LAMBDA, "both"),
            "output": _variant("all", LAMBDA, "output"),
        },
    }


def _variant(mix: Mix, mix_l2: float | None, place: Place) -> Variant:
    """A variant named by all its settings, so that equal variants are trained once."""
    strength = "" if mix_l2 is None else f"-{mix_l2:g}"
    return Variant(f"{mix}{strength}-{place}", {"elmo": True, "mix": mix, "mix_l2": mix_l2 or 0.0, "elmo_at": place})


def numbers(compared: Tables, outcomes: Mapping[str, list[Outcome]]) -> dict[str, Any]:
    """Scores of every row and their gain over the baseline."""
    baseline = outcomes["baseline"]
    rows = {
        table: [
            {
                "row": label,
                "runs": variant.name,
                **scores_of(outcomes[variant.name]),
                "gain": None if label == BASELINE else gain(outcomes[variant.name], baseline),
            }
            for label, variant in rows.items()
        ]
        for table, rows in compared.items()
    }
    record = baseline[0].record
    return {
        "examples": record["examples"],
        "train_fraction": record["settings"]["train_fraction"],
        "place": compared["layers"]["top layer"].given["elmo_at"],
        "tables": rows,
    }
