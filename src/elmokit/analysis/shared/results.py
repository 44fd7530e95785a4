"""Results files: one small JSON file per measurement with its numbers, inputs, command, versions and machine."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elmokit import __version__
from elmokit.disk.digest import file_sha256
from elmokit.disk.json_file import from_json, read_json, write_json
from elmokit.disk.outputs import check_output
from elmokit.errors import FormatError
from elmokit.weights.model import Model

PathLike = str | os.PathLike[str]

_FORMAT = "elmokit results"


@dataclass(frozen=True)
class ModelFacts:
    """Model of an analysis."""

    name: str  # source folder or file
    fingerprint: str  # of the weights, independent of the file format


@dataclass(frozen=True)
class FileFacts:
    """Input file of an analysis."""

    path: str  # as it was given
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Results:
    """One run of one analysis."""

    kind: str  # "wsd", "probe", ...: the command
    command: str  # the command line that reproduces the results
    model: ModelFacts | None  # None without a model
    data: tuple[FileFacts, ...]
    numbers: dict[str, Any]  # measurements of this kind; JSON values only
    version: str = __version__  # of elmokit
    versions: dict[str, str] | None = None  # of python, torch and numpy; written by `write_results`
    machine: str | None = None  # machine class; written by `write_results`
    seeds: tuple[int, ...] = ()  # random seeds; empty where nothing is random


def model_facts(model: Model) -> ModelFacts:
    """Describe a loaded model, which must not be int8."""
    return ModelFacts(model.short_name, model.fingerprint)


def file_facts(paths: Iterable[PathLike]) -> tuple[FileFacts, ...]:
    """Describe input files, in order."""
    return tuple(_file_facts(Path(path)) for path in paths)


def _file_facts(path: Path) -> FileFacts:
    return FileFacts(str(path), path.stat().st_size, file_sha256(path))


def command_line(program: str = "elmo") -> str:
    """The current command line, quoted for the shell."""
    return f"{program} {shlex.join(sys.argv[1:])}"


def versions() -> dict[str, str]:
    """Versions of the software that numbers depend on, but for elmokit itself."""
    import numpy as np
    import torch

    return {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}


def machine_class() -> str:
    """Class of the machine: system, CPU model with its vector extensions, and threads of torch."""
    import torch

    from elmokit.nn.device import cpu_name

    return f"{platform.system()} {platform.machine()}, {cpu_name()}, {torch.get_num_threads()} thread(s)"


def check_target(path: PathLike, *, overwrite: bool = False) -> Path:
    """Check an output path before the work: it must not exist unless `overwrite` is set."""
    return check_output(path, overwrite=overwrite)


def write_results(path: PathLike, results: Results, *, overwrite: bool = False) -> None:
    """Write a results file atomically, with the versions of the software and the machine class."""
    target = check_target(path, overwrite=overwrite)
    results = replace(results, versions=results.versions or versions(), machine=results.machine or machine_class())
    write_json(target, {"format": _FORMAT, **asdict(results)}, replace=overwrite, finite=True)


def read_results(path: PathLike) -> Results:
    """Read a results file."""
    facts = read_json(Path(path))
    if not isinstance(facts, dict) or facts.pop("format", None) != _FORMAT:
        raise FormatError(f"{path}: expected a results file of elmokit, found something else")
    return from_json(Results, facts, str(path))
