"""Tagger folder: a complete run reduced to the files that tagging needs, at half precision, with a card."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmokit.disk.json_file import write_json
from elmokit.disk.manifest import Checked, Manifest
from elmokit.disk.tensor_file import write_tensors
from elmokit.disk.whole import new_folder
from elmokit.errors import ConfigError, OutputError
from elmokit.tasks.runs import run_folder as files

CARD = "README.md"


TAGGER_FOLDER = Manifest(
    "a tagger of `elmo task pack`",
    marks=(Checked(files.SETTINGS, files.is_record),),
    parts=(files.LABELS, files.WORDS, files.VECTORS, files.WEIGHTS, files.RESULTS, CARD),
)
# The kinds of taggers, as in `elmo tag --as KIND`, and the task that trains each
KINDS = {"ner": "ner", "pos": "pos", "upos": "upos", "sentiment": "sst"}


def kind_of(task: str) -> str | None:
    """The kind of tagger that a task trains; None for tasks that are no taggers."""
    return next((kind for kind, name in KINDS.items() if name == task), None)


def pack_tagger(
    run: str | os.PathLike[str], folder: str | os.PathLike[str], *, about: str = "", overwrite: bool = False
) -> Path:
    """Write a complete run as a tagger folder, atomically, and return its path.

    The folder has the layout of a run, with float16 weights and file names in place of paths. about: Markdown on data
    and licenses for the card. The biLM is not included: its fingerprint is recorded.
    """
    run, target = Path(run).expanduser(), Path(folder).expanduser()
    record = files.read_record(run)
    kind = kind_of(record["task"])
    if kind is None:
        raise ConfigError(f"{run}: expected a run of {', '.join(KINDS.values())}, found one of {record['task']}")
    if (record["model"] or {}).get("trained"):
        raise ConfigError(f"{run}: expected a run with a frozen biLM, found one with --finetune-bilm")
    results = files.read_results(run)
    tensors = {files.WEIGHTS: _half(files.read_tensors(run / files.WEIGHTS), run)}
    if (run / files.VECTORS).exists():
        tensors[files.VECTORS] = _half(files.read_tensors(run / files.VECTORS), run)
    packed = _without_paths(record)
    with new_folder(target, replaces=TAGGER_FOLDER, overwrite=overwrite) as fresh:
        for name, content in tensors.items():
            write_tensors(fresh / name, content)
        for name in (files.LABELS, files.WORDS):
            write_json(fresh / name, files.read_json(run / name))
        write_json(fresh / files.RESULTS, results)
        write_json(fresh / files.SETTINGS, packed)
        (fresh / CARD).write_text(_card(kind, packed, results, about), encoding="utf-8", newline="\n")
    return target


def _half(tensors: dict[str, Tensor], run: Path) -> dict[str, Tensor]:
    """Tensors at half precision."""
    half = {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
    for name, tensor in half.items():
        if not torch.isfinite(tensor.float()).all():
            raise OutputError(f"{run}: {name} has numbers too large for half precision; train with a lower rate")
    return half


def _without_paths(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a run without the paths of the machine it was trained on: digests identify the files."""

    def named(file: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if file is None else {**file, "path": Path(file["path"]).name}

    vectors, data = record["vectors"], dict(record["data"])
    data |= {"train": [named(file) for file in data["train"]]} | {part: named(data[part]) for part in ("dev", "test")}
    return {
        "task": record["task"],
        "versions": record.get("versions", {}),
        "machine": record.get("machine", ""),
        "data": data,
        "examples": record.get("examples", {}),
        "model": None if record["model"] is None else {**record["model"], "path": None},
        "vectors": named(vectors),
        "settings": {**record["settings"], "model": None, "vectors": vectors and Path(vectors["path"]).name},
    }  # fmt: skip


def _card(kind: str, record: dict[str, Any], results: dict[str, Any], about: str) -> str:
    """The card: figures of the run, and the given text about data and licenses."""
    settings, data, counts = record["settings"], record["data"], record["examples"]
    files_of = {"train": data["train"], "dev": [data["dev"]], "test": [data["test"]]}
    parts = {part: ", ".join(file["path"] for file in some if file) for part, some in files_of.items()}
    names = "; ".join(f"{part} {name} ({counts.get(part, 0):,} examples)" for part, name in parts.items() if name)
    metric = results["metric"]
    scores = [f"{part} {results[part][metric]:.2f}" for part in ("dev", "test") if results[part]]
    model = record["model"]
    lines = [
        f"# {kind}", "", about.strip(), "" if about.strip() else None,
        f"- **Task**: `{record['task']}` of elmokit; use it with `elmo tag --as {kind}` or `elmokit.load_tagger`.",
        f"- **biLM**: frozen, fingerprint `{model['fingerprint']}`; no other one is accepted." if model else
        "- **biLM**: none.",
        f"- **Files**: {names}.",
        f"- **Scores** ({metric}): {', '.join(scores)}; epoch {results['best_epoch']}, seed {settings['seed']}.",
        f"- **Size**: {results['parameters']:,} parameters, stored in half precision.",
        f"- **Versions**: {', '.join(f'{name} {value}' for name, value in record['versions'].items())}.",
    ]  # fmt: skip
    return "\n".join(line for line in lines if line is not None) + "\n"
