"""What an analysis leaves behind: one small JSON file that says what was measured, on what, and by which command."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmokit import __version__
from elmokit.errors import FormatError, OutputError
from elmokit.weights.model import Model
from elmokit.weights.whole_file import whole_file

PathLike = str | os.PathLike[str]

_FORMAT = "elmokit results"


@dataclass(frozen=True)
class ModelFacts:
    """Which model was looked at."""

    name: str  # the folder or file that it came from
    fingerprint: str  # of its weights: the same in whichever format they came


@dataclass(frozen=True)
class FileFacts:
    """Which file was read."""

    path: str  # as it was given
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Results:
    """One run of one analysis."""

    kind: str  # "wsd", "probe", ...: the command
    command: str  # the line that makes these numbers again
    model: ModelFacts | None  # None where no model took part
    data: tuple[FileFacts, ...]
    numbers: dict[str, Any]  # what the kind measures; nothing but what JSON can hold
    version: str = __version__  # of elmokit


def model_facts(model: Model) -> ModelFacts:
    """The facts of a loaded model; its weights must not be in 8 bits."""
    places = [path.parent if path.parent.name else path for path in model.files]
    return ModelFacts(places[0].name if places else model.format, model.fingerprint)


def file_facts(paths: Iterable[PathLike]) -> tuple[FileFacts, ...]:
    """The facts of files, in their order."""
    return tuple(_file_facts(Path(path)) for path in paths)


def _file_facts(path: Path) -> FileFacts:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileFacts(str(path), file.tell(), digest)


def command_line() -> str:
    """The command that runs now, as one would type it."""
    return shlex.join(["elmo", *sys.argv[1:]])


def check_target(path: PathLike) -> Path:
    """The file to write, if it can be: new, or an older results file. To be asked before the work, not after it."""
    target = Path(path)
    if not target.parent.is_dir():
        raise OutputError(f"{target}: expected a file in a folder that exists, found no {target.parent}")
    if target.is_dir():
        raise OutputError(f"{target}: expected a file to write, found a folder")
    if target.exists():
        try:
            read_results(target)
        except FormatError as error:
            raise OutputError(f"{error}; it is not replaced: choose another name for the results") from None
    return target


def write_results(path: PathLike, results: Results) -> None:
    """Write a results file, all at once; an older one of the same name is replaced, any other file is not."""
    target = check_target(path)
    text = json.dumps({"format": _FORMAT, **asdict(results)}, ensure_ascii=False, allow_nan=False, indent=1)
    with whole_file(target) as fresh:
        fresh.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")  # of half a character, its code


def read_results(path: PathLike) -> Results:
    """Read a results file."""
    try:
        facts = json.loads(Path(path).read_bytes())
        if facts.pop("format") != _FORMAT:
            raise ValueError("another format")
        model = facts.pop("model")
        data = tuple(FileFacts(**file) for file in facts.pop("data"))
        return Results(model=None if model is None else ModelFacts(**model), data=data, **facts)
    except OSError as error:
        raise FormatError(f"{path}: expected a results file of elmokit ({error.strerror or error})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FormatError(f"{path}: expected a results file of elmokit, found something else") from None
