"""Run folder: its files, each written atomically."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import Tensor, float16

from elmokit.disk import json_file, tensor_file
from elmokit.disk.json_file import from_json, write_json
from elmokit.disk.manifest import Checked, Manifest
from elmokit.disk.tensor_file import write_tensors
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.training import metrics
from elmokit.training.settings_fields import with_current_names
from elmokit.weights.files import MODEL_FOLDER

__all__ = [
    "read_epochs",
    "read_json",
    "read_labels",
    "read_record",
    "read_results",
    "read_tensors",
    "read_words",
    "write_json",
    "write_tensors",
]

SETTINGS = "settings.json"  # provenance of the run: command, versions, data, biLM, vectors, hyperparameters
LABELS = "labels.json"  # label sets of the training data
WORDS = "words.json"  # the words of the word table, row by row
VECTORS = "vectors.safetensors"  # fixed rows of the word table
WEIGHTS = "weights.safetensors"  # the best weights; present when the run is complete
RESULTS = "results.json"  # scores of these weights
BILM = "bilm"  # the fine-tuned biLM, if any
CHECKPOINTS = "checkpoints"
MOST_COLUMNS = 2**16  # of a word table
_FORMER_WORDS = {"n_learnt": "n_learned"}  # in files of older versions
_FORMER_WEIGHTS = {"learnt": "learned"}


def is_record(path: Path) -> bool:
    """Whether a file is the settings.json of a run or a tagger."""
    try:
        return bool(read_record(path.parent))
    except (FormatError, InputError, ConfigError):
        return False


RUN_FOLDER = Manifest(
    "a run of `elmo task`",
    marks=(Checked(SETTINGS, is_record),),
    parts=(
        LABELS,
        WORDS,
        VECTORS,
        WEIGHTS,
        RESULTS,
        metrics.FILE,
        f"{CHECKPOINTS}/step-*.safetensors",
        f"{CHECKPOINTS}/.new-*",
        metrics.BOARD,
        *MODEL_FOLDER.inside(BILM),
    ),
)


@dataclass(frozen=True)
class FileRecord:
    """Path and digest of a data file."""

    path: str
    sha256: str


@dataclass(frozen=True)
class DataRecord:
    """Data files of a run."""

    train: tuple[FileRecord, ...]
    dev: FileRecord | None
    test: FileRecord | None


@dataclass(frozen=True)
class ModelRecord:
    """Description of the biLM of a run."""

    path: str | None
    fingerprint: str
    state: str = "reset"
    trained: bool = False


@dataclass(frozen=True)
class ExampleCounts:
    """Number of examples of each part of the data."""

    train: int = 0
    dev: int = 0
    test: int = 0


@dataclass(frozen=True)
class RunRecord:
    """Fields of `settings.json` needed to load the run; the file has more, for people."""

    task: str
    data: DataRecord
    model: ModelRecord | None
    vectors: FileRecord | None
    settings: dict[str, Any]
    examples: ExampleCounts = ExampleCounts()


@dataclass(frozen=True)
class MixRecord:
    """Weights of a scalar mix."""

    weights: tuple[float, ...]
    gamma: float


@dataclass(frozen=True)
class ResultsRecord:
    """Content of `results.json`."""

    metric: str
    dev: dict[str, float]
    test: dict[str, float] | None
    best_epoch: int
    epochs: int = 0
    seconds: float = 0.0
    seconds_to_best: float = 0.0
    parameters: int = 0
    mix: dict[str, MixRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class WordsRecord:
    """Content of `words.json`."""

    n_learned: int
    dim: int
    words: list[str]


def read_record(folder: Path, task: str | None = None) -> dict[str, Any]:
    """Read `settings.json`, checking that the folder is a run, and of that task."""
    if not (folder / SETTINGS).is_file():
        found = "other files" if folder.is_dir() else "nothing there"
        raise InputError(f"{folder}: expected the folder of a run of `elmo task`, found {found}")
    record = read_json(folder / SETTINGS)
    if not isinstance(record, dict) or not isinstance(record.get("task"), str):
        raise FormatError(f"{folder / SETTINGS}: expected the settings of a run, found something else")
    known = {item.name for item in fields(RunRecord)}
    checked = from_json(RunRecord, {name: record[name] for name in record.keys() & known}, str(folder / SETTINGS))
    record["examples"] = asdict(checked.examples)
    if task is not None and record["task"] != task:
        raise InputError(f"{folder}: expected a run of the task {task}, found one of {record['task']}")
    if isinstance(record.get("settings"), dict):
        record["settings"] = with_current_names(record["settings"])
    return record


def read_epochs(folder: Path) -> list[dict[str, Any]]:
    """Read the metrics of every epoch: its number, the steps so far (`step`) and the dev scores."""
    path = folder / metrics.FILE
    lines = [line for line in metrics.read_metrics(path) if line["kind"] == "epoch"]
    if any(type(line.get("epoch")) is not int for line in lines):
        raise FormatError(f"{path}: expected the metrics of a run, found an epoch without its number")
    return lines


def read_results(folder: Path) -> dict[str, Any]:
    """Read `results.json` of a complete run."""
    results = read_json(folder / RESULTS)
    from_json(ResultsRecord, results, str(folder / RESULTS))
    if results["metric"] not in results["dev"] or (results["test"] and results["metric"] not in results["test"]):
        raise FormatError(f"{folder / RESULTS}: expected scores of {results['metric']!r}, found none")
    return dict(results)


def read_words(folder: Path) -> WordsRecord:
    """Read `words.json`."""
    values = read_json(folder / WORDS)
    if isinstance(values, dict):
        values = {_FORMER_WORDS.get(name, name): value for name, value in values.items()}
    record = from_json(WordsRecord, values, str(folder / WORDS))
    if not (0 <= record.n_learned <= len(record.words) and 0 <= record.dim <= MOST_COLUMNS):
        raise FormatError(f"{folder / WORDS}: expected rows and columns of its words, found other numbers")
    return record


def read_labels(folder: Path, kinds: Collection[str]) -> dict[str, list[str]]:
    """Read `labels.json`: the distinct labels of each kind that the task has."""
    labels = from_json(dict[str, list[str]], read_json(folder / LABELS), str(folder / LABELS))
    if labels.keys() != set(kinds) or any(len(set(each)) != len(each) or "" in each for each in labels.values()):
        raise FormatError(f"{folder / LABELS}: expected lists of {', '.join(kinds) or 'nothing'}, found others")
    return labels


def read_json(path: Path) -> Any:
    """Read a JSON file of a run."""
    if not path.exists():
        raise FormatError(f"{path.parent}: expected {path.name} in it, found none; the run is not complete")
    return json_file.read_json(path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file of a run as float32; taggers are stored in float16."""
    if not path.exists():
        raise FormatError(
            f"{path.parent}: expected {path.name} in it, found none; the run is not complete: continue it with --resume"
        )
    tensors = tensor_file.read_tensors(path)[0]
    return {
        current_name(name): tensor.float() if tensor.dtype == float16 else tensor for name, tensor in tensors.items()
    }


def current_name(name: str) -> str:
    """Name of a weight, which older versions may have spelled differently."""
    parent, dot, last = name.rpartition(".")
    return f"{parent}{dot}{_FORMER_WEIGHTS.get(last, last)}"
