"""Ablations, less training data and learned weights, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folders import write_run

from elmokit.analysis.report import paper
from elmokit.analysis.shared.plots import curves, picture
from elmokit.analysis.shared.results import ModelFacts
from elmokit.analysis.studies import ablation, sample_efficiency
from elmokit.analysis.studies.layer_weights import layer_weights, weights_map
from elmokit.analysis.studies.study import Outcome, Study, Variant, read_outcome
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.tasks.ner import Ner
from elmokit.tasks.runs.task_run import Data
from elmokit.tasks.shared.task_settings import FitSettings


def outcome(tmp_path: Path, name: str, curve: list[float], test: float | None = None) -> Outcome:
    return read_outcome(write_run(tmp_path / name, dev=max(curve), test=test, curve=curve), "ner")


# ---- runs


def test_a_run_is_read(tmp_path: Path) -> None:
    found = outcome(tmp_path, "run", [10, 30, 20, 30], 25)
    assert (found.dev, found.test, found.best.epoch, found.best.updates) == (30, 25, 2, 20)
    assert [epoch.score for epoch in found.epochs] == [10, 30, 20, 30]
    reached = found.first_to_reach(15)
    assert reached is not None and (reached.epoch, reached.updates) == (2, 20)
    assert found.first_to_reach(30) == found.best and found.first_to_reach(30.1) is None


def test_a_damaged_run_is_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", dev=10, curve=[10])
    for name, content, message in (
        ("metrics.jsonl", '{"kind": "epoch"', "expected the results of a run, found others"),  # a torn line is no line
        ("metrics.jsonl", "", "expected the results of a run, found others"),
        ("results.json", '{"metric": "f1"}', "results.json: expected 'dev', found none"),
    ):
        kept = (folder / name).read_text()
        (folder / name).write_text(content)
        with pytest.raises(FormatError, match=message):
            read_outcome(folder, "ner")
        (folder / name).write_text(kept)


def test_variants_of_one_name_are_one_run_a_seed(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("")
    data = Data((str(tmp_path / "t"),))
    variants = [Variant("a", {"elmo": False}), Variant("b", {}), Variant("a", {"elmo": False})]
    study = Study(Ner(), {"hidden": 7}, data, tmp_path / "study", variants, [1, 2])
    assert [(run.folder.name, run.settings.seed, run.settings.elmo) for run in study.runs] == [
        ("a-1", 1, False),
        ("a-2", 2, False),
        ("b-1", 1, True),
        ("b-2", 2, True),
    ]
    assert all(run.settings.hidden == 7 and not run.is_complete for run in study.runs)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="train: expected a file"):
        Study(Ner(), {}, Data(), tmp_path, variants, [0])


# ---- ablation


def test_the_tables_are_those_of_the_paper() -> None:
    compared = ablation.tables(FitSettings(elmo_at="both"))
    for table, theirs in (("layers", paper.TABLE_2), ("places", paper.TABLE_3)):
        assert all(list(rows) == list(compared[table]) for rows in theirs.values())
    names = [variant.name for rows in compared.values() for variant in rows.values()]
    assert names == [
        "baseline",
        "top-both",
        "all-1-both",
        "all-0.001-both",
        "all-0.001-input",
        "all-0.001-both",
        "all-0.001-output",
    ]
    assert compared["layers"]["top layer"].given == {"elmo": True, "mix": "top", "mix_l2": 0.0, "elmo_at": "both"}


@pytest.mark.parametrize("with_test", [True, False])
def test_ablation_by_hand(tmp_path: Path, with_test: bool) -> None:
    compared = ablation.tables(FitSettings())
    names = dict.fromkeys(variant.name for rows in compared.values() for variant in rows.values())
    outcomes = {
        name: [
            outcome(tmp_path, f"{name}-{seed}", [50.0 + 2 * k + seed], 40.0 + 3 * k + seed if with_test else None)
            for seed in (0, 1)
        ]
        for k, name in enumerate(names)
    }
    found = ablation.numbers(compared, outcomes)
    assert found["place"] == "input" and found["examples"]["train"] == 20 and found["train_fraction"] == 1
    layers, places = found["tables"]["layers"], found["tables"]["places"]
    assert layers[0] == {
        "row": "no ELMo",
        "runs": "baseline",
        "dev": [50, 51],
        "test": [40, 41] if with_test else [],
        "gain": None,
    }
    # of the test scores where there are some: three points a variant; else two
    assert [row["gain"] for row in layers[1:]] == ([3, 6, 9] if with_test else [2, 4, 6])
    assert places[0]["runs"] == layers[3]["runs"] == "all-0.001-input" and places[0]["gain"] == layers[3]["gain"]


# ---- less training data


def test_sample_efficiency_by_hand(tmp_path: Path) -> None:
    outcomes = {
        "baseline-0.1": [outcome(tmp_path, "a", [10, 20, 15], 12), outcome(tmp_path, "b", [10, 11, 30], 18)],
        "elmo-0.1": [outcome(tmp_path, "c", [5, 19, 20, 40], 32), outcome(tmp_path, "d", [10, 29], 22)],
        "baseline-1": [outcome(tmp_path, "e", [80], 70), outcome(tmp_path, "f", [82], 72)],
        "elmo-1": [outcome(tmp_path, "g", [80], 70), outcome(tmp_path, "h", [90], 74)],
    }
    found = sample_efficiency.numbers([0.1, 1.0], outcomes)
    small, whole = found["points"]
    assert (small["fraction"], small["examples"], small["gain"], whole["gain"]) == (0.1, 20, 12, 1)
    assert small["baseline"] == {
        "dev": [20, 30],
        "test": [12, 18],
        "best": [{"epoch": 2, "updates": 20}, {"epoch": 3, "updates": 30}],
    }
    assert small["reached"] == [{"epoch": 3, "updates": 30}, None]  # 20 is as good as 20; 29 is not as good as 30
    assert whole["reached"] == [{"epoch": 1, "updates": 10}] * 2
    facts = {"task": "ner", "metric": "f1", **found}
    assert sample_efficiency.rows(facts)[0] == (
        "10%",
        "20",
        "25.00 ± 7.07",
        "15.00 ± 4.24",
        "2, 3",
        "34.50 ± 7.78",
        "27.00 ± 7.07",
        "4, 2",
        "+12.00",
        "3 (30), never",
    )
    names = {variant.name: variant.given for variant in sample_efficiency.variants([0.1, 1.0])}
    assert names.keys() == outcomes.keys() and names["elmo-0.1"] == {"elmo": True, "train_fraction": 0.1}
    assert picture(sample_efficiency.curve(facts), ".svg") == picture(sample_efficiency.curve(facts), ".svg")


def test_settings_are_chosen_on_dev_data_for_each_side(tmp_path: Path) -> None:
    choices = {"dropout": [0.2, 0.5], "batch_size": [4]}
    planned = sample_efficiency.variants([0.1, 1.0], choices)
    assert len(planned) == 8 and {variant.name: variant.adapts for variant in planned if "0.5" in variant.name} == {
        "baseline-0.1-dropout=0.5-batch_size=4": True,
        "elmo-0.1-dropout=0.5-batch_size=4": True,
        "baseline-1-dropout=0.5-batch_size=4": False,
        "elmo-1-dropout=0.5-batch_size=4": False,
    }
    assert planned[0].given == {"elmo": False, "train_fraction": 0.1, "dropout": 0.2, "batch_size": 4}
    fewer = [variant.name for variant in sample_efficiency.variants([0.1, 1.0], choices, up_to=0.1)]
    assert fewer == [*(variant.name for variant in planned[:4]), "baseline-1", "elmo-1"]
    # without ELMo 0.2 is better on dev data, in the mean of the seeds, though worse on test data; with ELMo, 0.5
    scores = {"baseline-0.2": [(50, 10), (40, 20)], "baseline-0.5": [(60, 70), (20, 80)]}
    scores |= {"elmo-0.2": [(50, 90), (40, 90)], "elmo-0.5": [(50, 31), (41, 33)]}
    outcomes = {}
    for name, pairs in scores.items():
        side, dropout = name.split("-")
        outcomes[f"{side}-0.1-dropout={dropout}-batch_size=4"] = [
            outcome(tmp_path, f"{name}-{seed}", [dev], test) for seed, (dev, test) in enumerate(pairs)
        ]
    (point,) = sample_efficiency.numbers([0.1], outcomes, choices)["points"]
    assert point["chosen"] == {
        "baseline": {"dropout": 0.2, "batch_size": 4},
        "elmo": {"dropout": 0.5, "batch_size": 4},
    }
    assert (point["baseline"]["test"], point["elmo"]["test"], point["gain"]) == ([10, 20], [31, 33], 17)
    assert point["tried"]["elmo"] == [
        {"settings": {"dropout": 0.2, "batch_size": 4}, "dev": [50, 40]},
        {"settings": {"dropout": 0.5, "batch_size": 4}, "dev": [50, 41]},
    ]
    facts = {"points": [point]}
    (row,) = sample_efficiency.rows(facts)
    assert (
        dict(zip(sample_efficiency.columns(facts), row, strict=True))["chosen with ELMo"] == "dropout 0.5, batch_size 4"
    )
    whole = {name: value for name, value in point.items() if name != "chosen"} | {"fraction": 1.0}
    facts = {"points": [point, whole]}  # choices up to a tenth alone
    rows = sample_efficiency.rows(facts)
    assert [len(row) for row in rows] == 2 * [len(sample_efficiency.columns(facts))] and rows[1][-2:] == ("", "")


def test_a_curve_has_a_logarithmic_axis_and_the_ticks_asked_for() -> None:
    figure = curves(
        {"a": [(10, [1.0, 3.0]), (1000, [5.0])], "b": [(10, [0.5]), (1000, [4.0])]},
        {10: "few", 1000: "many"},
        title="t",
        x_name="x",
        y_name="y",
    )
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["few", "many"]
    assert [list(line.lines[0].get_ydata()) for line in axes.containers] == [[2.0, 5.0], [0.5, 4.0]]
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["a", "b"]


# ---- learned weights


def test_weights_are_averaged_over_seeds_alone(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", task="snli", weights=[0.2, 0.5, 0.3], seed=0),
        write_run(tmp_path / "b", task="snli", weights=[0.4, 0.5, 0.1], seed=1),
        write_run(tmp_path / "c", task="srl", weights=[0.1, 0.8, 0.1], place="output"),
        write_run(tmp_path / "d", task="srl", weights=[0, 0, 1], mix="top"),
        write_run(tmp_path / "e", task="srl"),
    ]
    facts, model = layer_weights(runs)
    snli, srl = facts["rows"]
    assert (snli["name"], srl["name"], model) == ("snli input", "srl output", ModelFacts("small", "f" * 64))
    assert snli["weights"] == pytest.approx([0.3, 0.5, 0.2]) and srl["weights"] == [0.1, 0.8, 0.1]
    assert snli["runs"] == [str(runs[0]), str(runs[1])]
    assert json.loads(json.dumps(facts)) == facts
    axes = weights_map(facts).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["snli input", "srl output"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["layer 0", "layer 1", "layer 2"]
    assert axes.images[0].get_array().shape == (2, 3)  # type: ignore[union-attr]


def test_groups_of_one_task_are_told_apart(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "one", weights=[0.5, 0.5], hidden=1)
    write_run(tmp_path / "runs" / "two", weights=[0.5, 0.5], hidden=2)
    facts, _ = layer_weights([tmp_path / "runs"])
    assert [row["name"] for row in facts["rows"]] == ["ner input (one)", "ner input (two)"]


def test_runs_that_have_no_weights_in_common(tmp_path: Path) -> None:
    base = write_run(tmp_path / "base")
    with pytest.raises(InputError, match="only these have learned weights"):
        layer_weights([base])
    one = write_run(tmp_path / "one", weights=[0.5, 0.5])
    other = write_run(tmp_path / "other", weights=[0.5, 0.5], fingerprint="e" * 64)
    with pytest.raises(InputError, match=r"one biLM, found small \(ffffffffffff\) and small \(eeeeeeeeeeee\)"):
        layer_weights([one, other])
    (one / "results.json").write_text("{}")
    with pytest.raises(FormatError, match="expected 'metric', found none"):
        layer_weights([one])


@pytest.mark.parametrize("rows", [[], [{"name": "a", "weights": []}]])
def test_weights_of_no_layers(rows: list[dict[str, object]]) -> None:
    with pytest.raises(FormatError, match="expected rows of as many weights as the model has layers"):
        weights_map({"rows": rows})
