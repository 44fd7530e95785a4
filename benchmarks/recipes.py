"""Comparison of model shapes and training settings at equal time: short runs of `elmo pretrain`, one change each.

    python benchmarks/recipes.py --train 'lm/train-*.txt.xz' --heldout lm/heldout-dev.txt.xz --markdown trials.md

Every trial gets the same text, the same words to predict, one thread and the same time, over which its learning rate
falls to zero; then the held-out text decides. `light` is the preset; each other trial differs from it in what its name
says. Trials run side by side, one a core (--at-once), so that none has an advantage; finished ones are not repeated.
A short run flatters small shapes and high learning rates: what is nearly as good here may be better in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from elmokit.config import ModelConfig
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.output_vocabulary import build_vocabulary
from elmokit.pretrain.presets import get_preset

BASE = get_preset("light").config


@dataclass(frozen=True)
class Trial:
    """A trial and its description."""

    name: str
    config: ModelConfig = BASE
    flags: dict[str, str] = field(default_factory=dict)


def shape(name: str, *, dim: int, projection: int, filters: float = 1.0) -> Trial:
    """A trial of another shape; `filters` scales the numbers of filters of all widths."""
    assert BASE.char_cnn is not None
    lstm = replace(BASE.lstm, dim=dim, projection_dim=projection)
    numbers = tuple((width, round(number * filters)) for width, number in BASE.char_cnn.filters)
    characters = replace(BASE.char_cnn, filters=numbers)
    return Trial(name, replace(BASE, lstm=lstm, char_cnn=characters))


def flags(**given: str) -> Trial:
    """A trial of the same shape with other flags."""
    named = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    return Trial(" ".join(f"{name[2:].replace('-', ' ')} {value}" for name, value in named.items()), flags=named)


TRIALS = [
    Trial("light"),
    shape("256 cells, projections of 64", dim=256, projection=64),
    shape("512 cells, projections of 256", dim=512, projection=256),
    shape("1024 cells, projections of 128", dim=1024, projection=128),
    shape("half the filters", dim=512, projection=128, filters=0.5),
    flags(learning_rate="0.001"),
    flags(learning_rate="0.006"),
    flags(batch_tokens="2048"),
    flags(dropout="0.1"),
    flags(loss="full"),
    flags(loss="sampled", n_samples="4096"),
    flags(optimizer="adagrad", learning_rate="0.2", clip="10", loss_scale="20", warm_up="0", decay="none"),
]


def run(trial: Trial, core: int, folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """Train for the given time on one core, and return the results."""
    place = folder / "".join(c if c.isalnum() else "-" for c in trial.name)
    found = place / "found.json"
    if found.exists():
        return dict(json.loads(found.read_text()))
    place.mkdir(parents=True, exist_ok=True)
    options = place / "options.json"
    options.write_text(json.dumps(trial.config.to_options()))
    command = [
        sys.executable,
        "-m",
        "elmokit",
        "pretrain",
        "--heldout",
        arguments.heldout,
        *(part for pattern in arguments.train for part in ("--train", pattern)),
        "--warm-up",
        "20",
        "--vocabulary",
        str(folder / "vocabulary.txt"),
        "--preset",
        "light",
        "--options",
        str(options),
        "--minutes",
        str(arguments.minutes),
        "--heldout-every",
        "1000000",
        "--checkpoint-every",
        "1000000",
        "--threads",
        "1",
        "--quiet",
        "--overwrite",
        "-o",
        str(place / "run"),
        *(part for pair in trial.flags.items() for part in pair),
    ]
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        command = ["taskset", "-c", str(cores[core % len(cores)]), *command]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = [json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().splitlines()]
    steps, held = [x for x in lines if x["kind"] == "step"], [x for x in lines if x["kind"] == "heldout"]
    size = sum((place / "run" / name).stat().st_size for name in ("weights.safetensors", "softmax.safetensors"))
    facts = {"perplexity": held[-1]["mean"], "tokens": steps[-1]["tokens"], "parameters": size / 4}
    found.write_text(json.dumps(facts))
    return facts


def table(rows: list[tuple[str, dict[str, float]]], minutes: float) -> str:
    """A Markdown table, in the order of the trials."""
    lines = [
        f"| {minutes:g} minutes of one core | held-out perplexity | million tokens | million parameters with softmax |",
        "|---|---|---|---|",
    ]
    for name, facts in rows:
        lines.append(
            f"| {name} | {facts['perplexity']:.1f} | {facts['tokens'] / 1e6:.2f} | {facts['parameters'] / 1e6:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all missing trials, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="append", required=True)
    parser.add_argument("--heldout", required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="trials whose names contain this")
    parser.add_argument("--folder", type=Path, default=Path("recipe-trials"))
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    words = arguments.folder / "vocabulary.txt"
    if not words.exists():
        build_vocabulary(Corpus(arguments.train), get_preset("light").settings.vocabulary_size).write(words)
    trials = [trial for trial in TRIALS if not arguments.only or arguments.only in trial.name]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        futures = [pool.submit(run, trial, number, arguments.folder, arguments) for number, trial in enumerate(trials)]
        rows = [(trial.name, future.result()) for trial, future in zip(trials, futures, strict=True)]
    text = table(rows, arguments.minutes)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)


if __name__ == "__main__":
    main()
