"""Copy results and the records of task runs to docs/results, for `make report`.

    python recipes/keep_results.py results/*.json runs/ -o docs/results

A results file is copied as it is. Of every complete run settings.json (command, versions, digests of the data,
settings) and results.json (scores) go to runs/NAME/; weights and logs are not copied. Of a folder of `elmo ablate` or
`elmo sample-efficiency`, results.json alone goes there. Absolute paths are reduced to file names.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

RECORDS = ("settings.json", "results.json")
FOLDERS = re.compile(r"(^|[\s\"'=])/(?:[\w.-]+/)+")  # of an absolute path, in commands, too


def names_only(value: Any) -> Any:
    """The same JSON value; every absolute path in it becomes its last part."""
    if isinstance(value, dict):
        return {key: names_only(item) for key, item in value.items()}
    if isinstance(value, list):
        return [names_only(item) for item in value]
    return FOLDERS.sub(r"\1", value) if isinstance(value, str) else value


def keep(path: Path, output: Path) -> list[Path]:
    """Copy a results file, or the records of a folder that is a run, a study, or neither; returns the files written."""
    if path.is_file():
        return [copy(path, output / path.name)]
    is_run, is_complete = ((path / name).is_file() for name in RECORDS)
    if not is_complete:
        return [file for child in sorted(path.iterdir()) if child.is_dir() for file in keep(child, output)]
    return [copy(path / name, output / "runs" / path.name / name) for name in (RECORDS if is_run else RECORDS[1:])]


def copy(source: Path, target: Path) -> Path:
    """Copy a JSON file, without absolute paths."""
    target.parent.mkdir(parents=True, exist_ok=True)
    record = names_only(json.loads(source.read_text(encoding="utf-8")))
    target.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return target


def main() -> None:
    """Copy, and print what was copied."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="results files, runs, or folders of runs")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    for path in arguments.paths:
        for file in keep(path, arguments.output):
            print(file)


if __name__ == "__main__":
    main()
