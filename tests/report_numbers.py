"""Results of every kind that a report reads, with numbers made up by hand."""

from __future__ import annotations

from typing import Any

from elmokit.analysis.report import paper

SCORE = {"f1": 61.25, "precision": 1.0, "recall": 1.0, "instances": 3}
SIDE = {"dev": [51.5], "test": [41.5], "best": [{"epoch": 2, "updates": 20}]}
NUMBERS: dict[str, dict[str, Any]] = {
    "wsd": {
        "main": "test",
        "training_instances": 9,
        "backed_off": 1,
        "instances": 3,
        "scores": {"first sense": {"test": {"ALL": SCORE}}, "layer 2": {"test": {"ALL": SCORE | {"f1": 63.75}}}},
    },
    "probe": {
        "column": "xpos",
        "majority": 83.31,
        "accuracy": {"layer 0": 84.41, "layer 1": 90.31},
        "n_tags": 17,
        "control": {"layer 0": 70.11, "layer 1": 60.21},
        "training_tokens": 1000,
        "test_tokens": 100,
    },
    "polysemy": {
        "triples": [1, 2, 3],
        "right": {"layer 0": 0, "average": 2},
        "right_by_distance": {"layer 0": 0, "average": 3},
    },
    "compare": {
        "first": {"sentence": ["a", "present"], "position": 1},
        "second": {"sentence": ["the", "present"], "position": 1},
        "similarity": {"layer 0": 1.0, "average": 0.61},
        "pairs": {"layer 0": [[1, 0], [0, 1]], "average": [[0, 0.3], [0.4, 0.61]]},
    },
    "neighbors": {
        "sentence": ["the", "play", "<b>"],
        "position": 1,
        "word": "play",
        "static": [{"word": "games", "similarity": 0.7}],
        "corpus": {"sentences": 5, "tokens": 50, "occurrences": 4},
        "neighbors": {
            "average": [{"similarity": 0.875, "word": "play", "sentence": ["a", "play", "|"], "position": 1}]
        },
    },
    "ablate": {
        "task": "snli",
        "metric": "accuracy",
        "seeds": [0, 1],
        "examples": {"train": 55, "dev": 8, "test": 9},
        "train_fraction": 0.1,
        "place": "input",
        "tables": {
            table: [
                {"row": row, "runs": "x", "dev": [70.0 + k, 72.0 + k], "test": [], "gain": 1.0}
                for k, row in enumerate(rows["snli"])
            ]
            for table, rows in (("layers", paper.TABLE_2), ("places", paper.TABLE_3))
        },
    },
    "sample-efficiency": {
        "task": "srl",
        "metric": "f1",
        "seeds": [0],
        "examples": {"dev": 8, "test": 9},
        "points": [
            {"fraction": 0.1, "examples": 20, "baseline": SIDE, "elmo": SIDE, "gain": 3.25, "reached": [None]},
            {
                "fraction": 1,
                "examples": 200,
                "baseline": SIDE,
                "elmo": SIDE,
                "gain": 0.5,
                "reached": [{"epoch": 7, "updates": 1234}],
            },
        ],
    },
    "weights": {"rows": [{"name": "snli input", "weights": [0.11, 0.62, 0.27], "gamma": 1.0}]},
    "map": {
        "word": "bank",
        "view": "layer 2",
        "occurrences": [
            {"sentence": ["a", "bank"], "position": 1, "sense": sense, "point": [k, -k], "nearest": 0}
            for k, sense in enumerate(("money", "river", "money"))
        ],
        "same_sense": 2,
        "by_chance": 1.0,
    },
    "quality": {
        "encoders": {
            name: {
                "megabytes": 20.0 * k,
                "pos": {"clean": 94.0, "misspelled": 85.5, "curve": [[0.0, 94.0], [0.22, 85.5]]},
                "ner": {"clean": 72.0, "misspelled": 61.25 - k, "curve": [[0.0, 72.0], [0.24, 61.25 - k]]},
                "tokens_per_cpu_second": 8000.0 / k,
            }
            for k, name in enumerate(("base", "minilm"), start=1)
        },
        "table": ["| | base | minilm |", "|---|---|---|", "| size, MB | 20 | 40 |"],
    },
    "finetuning": {
        "tasks": {
            task: {
                "before": 140.25,
                "after": 70.125,
                "training_sentences": 8500,
                "dev_tokens": 900,
                "out_of_vocabulary": 0.0625,
            }
            for task in ("sst", "pos")
        }
    },
    "perplexity": {
        "forward": 120.5,
        "backward": 110.25,
        "mean": 115.375,
        "out_of_vocabulary": 0.025,
        "vocabulary": 20000,
    },
}
