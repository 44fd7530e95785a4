"""Copy the records of task runs to docs/results, for `make report`.

    python recipes/keep_runs.py runs/ -o docs/results/runs

Of every complete run settings.json (command, versions, digests of the data, settings) and results.json (scores) are
copied, with paths reduced to file names; weights and logs are not. Of a folder of `elmo ablate` or
`elmo sample-efficiency`, results.json alone is copied.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RECORDS = ("settings.json", "results.json")


def names_only(value: Any) -> Any:
    """The same JSON value; every string that is an absolute path becomes its last part, in commands, too."""
    if isinstance(value, dict):
        return {key: names_only(item) for key, item in value.items()}
    if isinstance(value, list):
        return [names_only(item) for item in value]
    if isinstance(value, str) and "/" in value:
        return " ".join(Path(word).name if word.startswith("/") else word for word in value.split(" "))
    return value


def keep(folder: Path, output: Path) -> list[Path]:
    """Copy the records of a folder that is a run, a study, or neither; returns the files written."""
    is_run, is_complete = ((folder / name).is_file() for name in RECORDS)
    if not is_complete:
        return [path for child in sorted(folder.iterdir()) if child.is_dir() for path in keep(child, output)]
    written = []
    for name in RECORDS if is_run else RECORDS[1:]:
        target = output / folder.name / name
        target.parent.mkdir(parents=True, exist_ok=True)
        record = names_only(json.loads((folder / name).read_text(encoding="utf-8")))
        target.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(target)
    return written


def main() -> None:
    """Copy, and print what was copied."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    for folder in arguments.folders:
        for path in keep(folder, arguments.output):
            print(path)


if __name__ == "__main__":
    main()
