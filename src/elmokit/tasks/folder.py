"""The folder of a run: its files, each whole or not there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmokit.errors import FormatError, InputError
from elmokit.training import metrics
from elmokit.weights.model import first_line
from elmokit.weights.whole_file import whole_file

SETTINGS = "settings.json"  # all that made the run: command, versions, data, biLM, vectors, hyper-parameters
LABELS = "labels.json"  # what the task knew before its network was built
WORDS = "words.json"  # the words of the word table, row by row
VECTORS = "vectors.safetensors"  # its fixed rows
WEIGHTS = "weights.safetensors"  # the best weights; there when the run is complete
RESULTS = "results.json"  # scores of these weights
BILM = "bilm"  # the biLM, where it was trained too
CHECKPOINTS = "checkpoints"


def read_record(folder: Path, task: str | None = None) -> dict[str, Any]:
    """What `settings.json` says, if the folder is a run, and of that task."""
    if not (folder / SETTINGS).is_file():
        found = "other files" if folder.is_dir() else "nothing there"
        raise InputError(f"{folder}: expected the folder of a run of `elmo task`, found {found}")
    record = read_json(folder / SETTINGS)
    if not isinstance(record, dict) or not isinstance(record.get("task"), str):
        raise FormatError(f"{folder / SETTINGS}: expected the settings of a run, found something else")
    if task is not None and record["task"] != task:
        raise InputError(f"{folder}: expected a run of the task {task}, found one of {record['task']}")
    return record


def read_epochs(folder: Path) -> list[dict[str, Any]]:
    """What a run noted after every epoch: its number, the updates so far (`step`), the dev scores."""
    path = folder / metrics.FILE
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if line["kind"] == "epoch"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: expected the metrics of a run, found {first_line(error)}") from None


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FormatError(f"{path.parent}: expected {path.name} in it, found none; the run is not complete") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: expected JSON, found a damaged file ({first_line(error)})") from None


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file: people read it too."""
    with whole_file(path) as beside:
        beside.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file."""
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except FileNotFoundError:
        raise FormatError(
            f"{path.parent}: expected {path.name} in it, found none; the run is not complete: go on with --resume"
        ) from None
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: expected a safetensors file, found a damaged one ({first_line(error)})") from None
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors."""
    with whole_file(path) as beside:
        beside.touch()
        mode = beside.stat().st_mode  # what the user's umask allows; safetensors would leave it to the owner alone
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, beside)
        beside.chmod(mode)
