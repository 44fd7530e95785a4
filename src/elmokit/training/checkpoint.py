"""Checkpoints: one safetensors file each, written atomically and verified by a checksum.

A checkpoint holds tensors and JSON and no executable code. It is written to a temporary file, synced to disk and
renamed; if the checksum shows that it is damaged, the previous checkpoint is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmokit.disk.json_file import parse_json
from elmokit.disk.manifest import Checked, Manifest
from elmokit.disk.scratch import remove_leftovers
from elmokit.disk.tensor_file import read_metadata, read_tensors, write_tensors
from elmokit.errors import ConfigError, FormatError, OutputError, first_line

VERSION = 1  # format version
KEPT = 2  # recent checkpoints that are kept, besides the best one
_PATTERN = "step-*.safetensors"
_ADVICE = "; make room, then continue with --resume"


@dataclass(frozen=True)
class Checkpoint:
    """Complete state of a run between two steps."""

    record: dict[str, Any]  # JSON values: settings, model shape, position in the text, counts
    tensors: dict[str, Tensor]  # weights, optimizer state, vocabulary


def write(checkpoint: Checkpoint, folder: Path) -> Path:
    """Write a checkpoint, which becomes the newest of its folder; an error leaves the folder unchanged.

    Checkpoints of later steps are deleted: they are damaged, otherwise the run would have resumed from them.
    """
    path = path_of(folder, checkpoint.record["step"])
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    record = json.dumps(checkpoint.record, sort_keys=True)
    metadata = {"record": record, "sha256": _digest(record, tensors), "version": str(VERSION)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_tensors(path, tensors, metadata=metadata, advice=_ADVICE)
        for later in (other for other in paths(folder) if other > path):
            later.unlink(missing_ok=True)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {first_line(error)}{_ADVICE}") from None
    return path


def read(path: Path) -> Checkpoint:
    """Read a checkpoint; raise a FormatError if it is damaged."""
    found, metadata = read_tensors(path)
    tensors = {name: tensor.clone() for name, tensor in found.items()}  # the file may be deleted while in use
    if metadata.get("version") != str(VERSION):
        raise FormatError(f"{path}: expected a checkpoint of version {VERSION}, found {metadata.get('version')!r}")
    record = metadata.get("record", "")
    if metadata.get("sha256") != _digest(record, tensors):
        raise FormatError(f"{path}: expected the checksum of its content, found a different one: the file is damaged")
    # the perplexity of a diverged run may be infinite
    value = parse_json(record, f"{path}, record", finite=False)
    if not isinstance(value, dict) or type(value.get("step")) is not int:
        raise FormatError(f"{path}: expected the record of a run, found something else")
    return Checkpoint(value, tensors)


def is_checkpoint(path: Path) -> bool:
    """Whether a file is a checkpoint of elmokit, by its metadata; its tensors may be damaged."""
    metadata = _metadata(path)
    return metadata is not None and {"record", "sha256", "version"} <= metadata.keys()


def is_damaged(path: Path) -> bool:
    """Whether a file cannot be read as safetensors, for example a checkpoint with a damaged header."""
    return path.is_file() and _metadata(path) is None


def _metadata(path: Path) -> dict[str, str] | None:
    if not path.is_file():  # opening a pipe would wait
        return None
    try:
        return read_metadata(path)
    except FormatError:
        return None


FOLDER = Manifest(
    "a folder of checkpoints",
    marks=(Checked(_PATTERN, is_checkpoint),),
    parts=(Checked(f"step-{9 * '[0-9]'}.safetensors", is_damaged), ".new-*"),
)


def latest(folder: Path, check: Callable[[Checkpoint], object]) -> tuple[Checkpoint | None, list[str]]:
    """Newest usable checkpoint, if any, and the errors of newer ones that were skipped.

    check: raises a FormatError or ConfigError if the run cannot be restored from a checkpoint.
    """
    faults: list[str] = []
    for path in reversed(paths(folder)):
        try:
            found = read(path)
            try:
                check(found)
            except (FormatError, ConfigError) as error:
                raise FormatError(f"{path}: {error}") from None
            return found, faults
        except FormatError as error:
            faults.append(str(error))
    if faults:
        raise FormatError(
            f"{folder}: expected an intact checkpoint, found none ({faults[0]}); start again with --overwrite"
        )
    return None, faults


def paths(folder: Path) -> list[Path]:
    """Checkpoint files of a folder, oldest first."""
    return sorted(folder.glob(_PATTERN))


def path_of(folder: Path, step: int) -> Path:
    """Path of the checkpoint of a step."""
    return folder / f"step-{step:09d}.safetensors"


def remove_all(folder: Path) -> None:
    """Delete all checkpoints of a folder, and the folder unless there is something else in it."""
    remove_leftovers(folder)
    for path in paths(folder):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # files of others, or no folder
        folder.rmdir()


def prune(folder: Path, best_step: int | None) -> None:
    """Delete all checkpoints except the last two and the best, and temporary files that older versions have left."""
    keep = {*paths(folder)[-KEPT:]} | ({path_of(folder, best_step)} if best_step is not None else set())
    for path in (*paths(folder), *folder.glob(".new-*")):
        if path not in keep:
            path.unlink(missing_ok=True)


def _digest(record: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(record.encode("utf-8", "surrogatepass"))
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)  # as bytes, because numpy lacks some dtypes
    return digest.hexdigest()
