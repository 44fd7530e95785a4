"""Copy results and the records of task runs to docs/results, for `make report`.

    python recipes/keep_results.py results/*.json runs/ --data DATA -o docs/results

A results file is copied as it is. Of a run, or of every complete run in a folder, settings.json (command, versions,
digests of the data, settings) and results.json (scores) go to runs/NAME/; weights and logs are not copied. Of a folder
of `elmo ablate` or `elmo sample-efficiency`, results.json alone goes there. Absolute paths in the folder DATA are made
relative to it; others are reduced to file names.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

RECORDS = ("settings.json", "results.json")
PATHS = ("path", "model", "vectors", "options", "runs")  # keys of paths


def names_only(value: Any, data: Path | None = None, key: str = "") -> Any:
    """The same JSON value; absolute paths in it, of a command, too, become paths inside `data`, or their last part."""
    if isinstance(value, dict):
        return {name: names_only(item, data, name) for name, item in value.items()}
    if isinstance(value, list):
        return [names_only(item, data, key) for item in value]
    if not isinstance(value, str):
        return value
    if key == "command":
        return shlex.join(_name(word, data) for word in shlex.split(value))
    return _name(value, data) if key in PATHS else value


def _name(word: str, data: Path | None) -> str:
    """The short form of an absolute path, or of the one after `--flag=`; other words as they are."""
    flag, equals, path = word.partition("=") if word.startswith("--") else ("", "", word)
    if not path.startswith("/"):
        return word
    inside = data is not None and Path(path).is_relative_to(data)
    return f"{flag}{equals}{Path(path).relative_to(data) if inside and data else Path(path).name}"


def sources(path: Path) -> list[tuple[Path, Path]]:
    """Files to copy and their places in the output: of a results file, of a run or study, or of a folder of them."""
    if path.is_file():
        return [(path, Path(path.name))]
    if (path / "results.json").is_file():
        names = RECORDS if (path / "settings.json").is_file() else RECORDS[1:]
        return [(path / name, Path("runs", path.name, name)) for name in names]
    folders = sorted(child for child in path.iterdir() if child.is_dir())
    for child in folders:
        if not (child / "results.json").is_file():
            print(f"skipped: {child}, which is not complete", file=sys.stderr)
    return [pair for child in folders if (child / "results.json").is_file() for pair in sources(child)]


def main() -> None:
    """Copy, and print what was copied."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="results files, runs, or folders of runs")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="of the data, whose names are kept below it")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    data = arguments.data and arguments.data.resolve()
    chosen: dict[Path, Path] = {}
    for path in arguments.paths:
        if not path.exists():
            parser.error(f"{path}: expected a results file or the folder of a run, found nothing there")
        for source, place in sources(path):
            if place in chosen:
                parser.error(f"{source}: expected one source for {place}, found {chosen[place]} as well")
            chosen[place] = source
    for place, source in chosen.items():
        target = arguments.output / place
        target.parent.mkdir(parents=True, exist_ok=True)
        record = names_only(json.loads(source.read_text(encoding="utf-8")), data)
        target.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        print(target)


if __name__ == "__main__":
    main()
