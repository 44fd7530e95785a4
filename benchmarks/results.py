"""Results of benchmarks as data: docs/results/NAME.json, with the header of all results files of elmokit.

Pages take their figures from these files (`make tables`, recipes/tables.py), so the files are committed: they hold file
names and digests, but no paths of the machine.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmokit.analysis.shared.results import Results, file_facts, model_facts, read_results, write_results
from elmokit.weights.model import Model

FOLDER = Path(__file__).parents[1] / "docs" / "results"


def write(
    name: str,
    numbers: Mapping[str, Any],
    *,
    files: Iterable[Path] = (),
    model: Model | None = None,
    seeds: Iterable[int] = (),
    table: str | None = None,
    output: Path | None = None,
) -> Path:
    """Write the results of a benchmark, replacing older ones, and return the path.

    numbers: JSON values. files: data that they depend on. table: Markdown for pages, kept as `numbers["table"]`.
    output: by default docs/results/NAME.json.
    """
    path = output or FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = dict(numbers) if table is None else {**numbers, "table": table.strip().splitlines()}
    data = tuple(replace(facts, path=Path(facts.path).name) for facts in file_facts(files))
    facts = None if model is None else model_facts(model)
    results = Results(name, command(), facts, data, shown, seeds=tuple(seeds))
    write_results(path, results, overwrite=True)
    print(f"results: {path}", file=sys.stderr)
    return path


def earlier(name: str, output: Path | None = None, *, model: Model | None = None) -> dict[str, Any]:
    """Numbers of earlier results, with `model` of the same one; empty if there are none."""
    path = output or FOLDER / f"{name}.json"
    if not path.exists():
        return {}
    results = read_results(path)
    other = model is not None and (results.model is None or results.model.fingerprint != model.fingerprint)
    return {} if other else dict(results.numbers)


def command() -> str:
    """The command line of this benchmark, with absolute paths reduced to names."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return f"python benchmarks/{Path(sys.argv[0]).name} {shlex.join(words)}".strip()
