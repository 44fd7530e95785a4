"""Overhead of Ray on one machine: `elmo embed` in one process against `elmo embed --ray` with two actors.

    pip install 'elmokit[ray]'
    python benchmarks/ray_overhead.py TEXT [--rounds 5] [--layers top] [--actors 2]

TEXT: a file of real sentences, one per line; plain or compressed. Both commands embed the whole file into Parquet and
run in turns, a different one first in each round. One process computes with as many threads as there are actors; an
actor computes with one thread. A measurement is the time of the command from its start to its end, with the start of
Python, and for Ray of a local cluster. Cluster and model take the same time for any text, so the commands also embed
the first tenth of the text: the difference of the two times is the steady speed, without that start. Overhead is
the time of Ray over that of one process, minus 1; ratios are taken within a round, and their median is reported. Give
it a text that takes minutes, and an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import results

from elmokit.text.lines import read_lines
from elmokit.weights import load

LABELS = {"total": "whole command", "steady": "without the start of processes, cluster and model"}


def command(text: Path, output: Path, layers: str, actors: int, *, on_ray: bool) -> list[str]:
    """The command of one contender."""
    contender = ["--ray", "local", "--num-actors", str(actors)] if on_ray else ["--threads", str(actors)]
    start = [sys.executable, "-m", "elmokit", "embed", str(text), "-o", str(output)]
    return [*start, "--layers", layers, "--quiet", *contender]


def seconds(text: Path, layers: str, actors: int, *, on_ray: bool) -> float:
    """Wall time of one command, which writes into a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / ("vectors" if on_ray else "vectors.parquet")
        started = time.perf_counter()
        done = subprocess.run(command(text, output, layers, actors, on_ray=on_ray), stderr=subprocess.PIPE, text=True)
        elapsed = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"ray_overhead: {done.stderr.strip()}")
    return elapsed


def measure(texts: dict[str, Path], layers: str, actors: int, turn: int) -> dict[str, dict[str, float]]:
    """Seconds of one round: {"one process": {"total": ..., "steady": ...}, "ray": ...}."""
    found: dict[str, dict[str, float]] = {"one process": {}, "ray": {}}
    for name, text in texts.items():
        for contender in sorted(found, reverse=bool(turn % 2)):
            found[contender][name] = seconds(text, layers, actors, on_ray=contender == "ray")
    return {
        contender: {"total": times["all"], "steady": times["all"] - times["tenth"]}
        for contender, times in found.items()
    }


def summary(rounds: list[dict[str, dict[str, float]]], tokens: dict[str, int]) -> dict[str, Any]:
    """Medians over the rounds: seconds, words per second, and overhead of Ray in percent with its range."""
    found: dict[str, Any] = {}
    amounts = {"total": tokens["all"], "steady": tokens["all"] - tokens["tenth"]}
    for kind, amount in amounts.items():
        if min(each[contender][kind] for each in rounds for contender in each) <= 0:
            print(f"{kind}: the text is too short, or the machine too busy, to measure it", file=sys.stderr)
            continue
        overheads = [100 * (each["ray"][kind] / each["one process"][kind] - 1) for each in rounds]
        found[kind] = {
            contender: {
                "seconds": round(statistics.median(each[contender][kind] for each in rounds), 2),
                "words per second": round(statistics.median(amount / each[contender][kind] for each in rounds)),
            }
            for contender in ("one process", "ray")
        }
        found[kind]["overhead percent"] = round(statistics.median(overheads), 1)
        found[kind]["overhead range"] = [round(min(overheads), 1), round(max(overheads), 1)]
    return found


def table(found: dict[str, Any]) -> str:
    """The summary as a Markdown table."""
    lines = ["| | one process, words/s | Ray, words/s | overhead of Ray |", "|---|---|---|---|"]
    for kind, label in ((kind, label) for kind, label in LABELS.items() if kind in found):
        speeds = [f"{found[kind][contender]['words per second']:,}" for contender in ("one process", "ray")]
        low, high = found[kind]["overhead range"]
        overhead = f"{found[kind]['overhead percent']:.0f}% ({low:.0f}% to {high:.0f}%)"
        lines.append(f"| {label} | {' | '.join(speeds)} | {overhead} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", default="top", help="as for elmo embed [top]")
    parser.add_argument("--actors", type=int, default=2, help="actors, and threads of one process [2]")
    parser.add_argument("-o", "--output", type=Path, help="JSON file [docs/results/ray_overhead.json]")
    options = parser.parse_args()
    lines = list(read_lines(options.text))
    parts = {"all": lines, "tenth": lines[: max(1, len(lines) // 10)]}
    tokens = {name: sum(len(line.split()) for line in part) for name, part in parts.items()}
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        texts = {name: Path(folder) / f"{name}.txt" for name in parts}
        for name, text in texts.items():
            text.write_text("".join(f"{line}\n" for line in parts[name]), encoding="utf-8")
        for turn in range(options.rounds):
            rounds.append(measure(texts, options.layers, options.actors, turn))
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    found = summary(rounds, tokens)
    facts = {
        "cores": os.cpu_count(),
        "actors": options.actors,
        "rounds": options.rounds,
        "sentences": len(lines),
        "words": tokens["all"],
        **found,
    }
    results.write("ray_overhead", facts, files=[options.text], model=load(), table=table(found), output=options.output)
    print(table(found))


if __name__ == "__main__":
    main()
