"""The learning curve of a training run as data for the pages: docs/results/learning_curve.json.

    python recipes/learning_curve.py RUN/metrics.jsonl

Per held-out evaluation: tokens read, perplexity (mean of both directions) and learning rate.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from elmokit.analysis.shared.results import FileFacts, Results, file_facts, write_results

OUTPUT = Path(__file__).parents[1] / "docs" / "results" / "learning_curve.json"


def curve(lines: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Points of the curve, from the lines of metrics.jsonl."""
    steps = [line for line in lines if line["kind"] == "step"]
    points = []
    for line in lines:
        if line["kind"] == "heldout" and line["step"]:
            near = min(steps, key=lambda step: abs(step["step"] - line["step"]))  # steps are logged less often
            tokens = near["tokens"] * line["step"] / near["step"]
            points.append({"tokens": round(tokens), "perplexity": line["mean"], "learning_rate": near["learning_rate"]})
    return points


def table(points: list[dict[str, float]]) -> list[str]:
    """Markdown lines."""
    rows = (
        ("million tokens", [f"{point['tokens'] / 1e6:.1f}" for point in points]),
        ("perplexity", [f"{point['perplexity']:.1f}" for point in points]),
        ("learning rate / 0.001", [f"{1000 * point['learning_rate']:.2f}" for point in points]),
    )
    lines = [f"| {name} | {' | '.join(cells)} |" for name, cells in rows]
    return [lines[0], "|---" * (len(points) + 1) + "|", *lines[1:]]


def main() -> None:
    """Read the metrics and write the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT, metavar="JSON")
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.metrics.read_text(encoding="utf-8").splitlines()]
    points = curve(lines)
    steps = [line for line in lines if line["kind"] == "step"]
    numbers = {
        "points": points,
        "steps": steps[-1]["step"],
        "tokens": steps[-1]["tokens"],
        "tokens_per_second": steps[-1]["tokens_per_second"],  # since the run was last resumed
        "table": table(points),
    }
    (facts,) = file_facts([arguments.metrics])
    data = (FileFacts(arguments.metrics.name, facts.bytes, facts.sha256),)
    command = f"python recipes/learning_curve.py {arguments.metrics.name}"
    write_results(arguments.output, Results("learning_curve", command, None, data, numbers), overwrite=True)


if __name__ == "__main__":
    main()
