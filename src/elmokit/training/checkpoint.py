"""Checkpoints: one file each, complete or not there at all, and known to be whole when it is read.

A checkpoint is a safetensors file: numbers and JSON, nothing that could run. It is written beside its place, brought to
the disk, and renamed; a checksum over its whole content tells a damaged one, and then the one before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmokit.errors import FormatError, OutputError
from elmokit.weights.model import first_line

VERSION = 1  # of what a checkpoint holds
KEPT = 2  # the last ones; and the best
_PATTERN = "step-*.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """All that a run is between two steps."""

    record: dict[str, Any]  # settings, shape, place in the text, counts: what JSON can hold
    tensors: dict[str, Tensor]  # weights, optimiser, vocabulary


def write(checkpoint: Checkpoint, folder: Path) -> Path:
    """Add a checkpoint to a folder, of which it is then the newest; an error leaves the folder as it was.

    Those of later steps were damaged, else the run would have gone on from them: they must not take its place.
    """
    path = path_of(folder, checkpoint.record["step"])
    beside = folder / f".new-{os.getpid()}"
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    record = json.dumps(checkpoint.record, sort_keys=True)
    metadata = {"record": record, "sha256": _digest(record, tensors), "version": str(VERSION)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        beside.touch()
        mode = beside.stat().st_mode  # what the user's umask allows; safetensors would leave it to the owner alone
        save_file(tensors, beside, metadata=metadata)
        beside.chmod(mode)
        bring_to_disk(beside)
        beside.replace(path)
        bring_to_disk(folder)  # the rename too
        for later in (other for other in paths(folder) if other > path):
            later.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise OutputError(f"{path}: cannot be written: {reason}; make room, then go on with --resume") from None
    finally:
        beside.unlink(missing_ok=True)
    return path


def read(path: Path) -> Checkpoint:
    """Read a checkpoint; a FormatError tells one that is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError) as error:
        raise FormatError(f"{path}: expected a checkpoint, found a damaged file ({first_line(error)})") from None
    if metadata.get("version") != str(VERSION):
        raise FormatError(f"{path}: expected a checkpoint of version {VERSION}, found {metadata.get('version')}")
    if metadata.get("sha256") != _digest(metadata["record"], tensors):
        raise FormatError(f"{path}: expected the checksum of its content, found another: the file is damaged")
    return Checkpoint(json.loads(metadata["record"]), tensors)


def latest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, if any; and what is wrong with those that are newer."""
    faults: list[str] = []
    for path in reversed(paths(folder)):
        try:
            return read(path), faults
        except FormatError as error:
            faults.append(str(error))
    if faults:
        raise FormatError(
            f"{folder}: expected a whole checkpoint, found none ({faults[0]}); begin again with --overwrite"
        )
    return None, faults


def paths(folder: Path) -> list[Path]:
    """The checkpoints of a folder, oldest first."""
    return sorted(folder.glob(_PATTERN))


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is, or was."""
    return folder / f"step-{step:09d}.safetensors"


def prune(folder: Path, best_step: int | None) -> None:
    """Delete all checkpoints but the last two and the best, and what writers that were killed have left behind."""
    keep = {*paths(folder)[-KEPT:]} | ({path_of(folder, best_step)} if best_step is not None else set())
    for path in (*paths(folder), *folder.glob(".new-*")):
        if path not in keep:
            path.unlink(missing_ok=True)


def bring_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(record: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(record.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).numpy().data)
    return digest.hexdigest()
