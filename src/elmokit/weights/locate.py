"""Load a model by name or path; the format is detected."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from elmokit.errors import ElmoError, FormatError
from elmokit.weights import files, native
from elmokit.weights.files import Member, Members
from elmokit.weights.model import Model, Origin

# Modules of foreign formats are imported lazily: native models load without h5py.

PathLike = str | os.PathLike[str]
ModelName = PathLike | Sequence[PathLike]

KNOWN = (
    "a native folder (options.json, weights.safetensors), options.json with an HDF5 file, an ELMoForManyLangs folder, "
    "a zip of one of the last two, a folder of transformers, or an AllenNLP state dict"
)


def load(model: ModelName | None = None) -> Model:
    """Load a model of any known format.

    `model`: a folder, a file, the name of a packaged or installed model, a pair (options, weights) of the published
    format, or that pair with a file of token embeddings that replaces the character CNN. None is the packaged model.
    """
    if model is None:
        return replace(native.load(_packaged()), origin=Origin(None))
    if not isinstance(model, (str, os.PathLike)):
        paths = [_existing(part) for part in model]
        return replace(_load_pair(paths), origin=Origin(tuple(os.path.abspath(path) for path in paths)))
    if isinstance(model, str) and (folder := _named(model)) is not None:
        return replace(native.load(folder), origin=Origin(model))
    path = _existing(model)
    found = _load_members(files.folder(path), path) if path.is_dir() else _load_file(path)
    return replace(found, origin=Origin(os.path.abspath(path)))


def _load_file(path: Path) -> Model:
    from elmokit.weights import allennlp, archive

    member = files.single(path)
    kind = member.kind()
    beside = files.folder(path.parent)
    if kind == "HDF5":
        return _load_hdf5(member, beside)
    if kind == "a zip" and not archive.is_torch(path):
        return _load_members(archive.members(path), path)
    if kind in ("a zip", "a pickle"):
        return allennlp.load(member, _only_options(beside))
    if path.name in (native.WEIGHTS, native.OPTIONS) and native.WEIGHTS in beside:
        return native.load(path.parent)
    raise FormatError(f"{path}: expected {KNOWN}, found {kind}")


def _load_members(members: Members, place: Path) -> Model:
    """Load the model in a folder or zip."""
    if native.WEIGHTS in members:
        if place.is_dir():
            return native.load(place)
        raise FormatError(f"{place}: expected a folder for a native model, found a zip; unpack it first")
    from elmokit.weights import allennlp, bilm_hdf5, efml, transformers_folder

    if place.is_dir() and transformers_folder.is_transformers(members):
        return transformers_folder.load(place)
    if all(name in members for name in efml.REQUIRED):
        return efml.load(members)
    if hdf5 := [member for name, member in members.items() if name.lower().endswith(bilm_hdf5.SUFFIXES)]:
        return _load_hdf5(_only_weights(hdf5, place), members)
    pickles = [member for name, member in members.items() if name.lower().endswith(allennlp.SUFFIXES)]
    if len(pickles) == 1:
        return allennlp.load(pickles[0], _only_options(members))
    if any(".ckpt" in name or name == "checkpoint" for name in members):
        raise FormatError(f"{place}: expected {KNOWN}, found a TensorFlow checkpoint; dump its weights to HDF5 first")
    raise FormatError(f"{place}: expected {KNOWN}, found {', '.join(list(members)[:8]) or 'nothing'}")


def _load_pair(paths: list[Path]) -> Model:
    from elmokit.weights import bilm_hdf5

    if not 2 <= len(paths) <= 3:
        raise FormatError(
            f"model: expected (options, weights) or (options, weights, token embeddings), found {len(paths)} paths"
        )
    if folders := [path for path in paths if path.is_dir()]:
        raise FormatError(f"{folders[0]}: expected a file, as one of (options, weights), found a folder")
    options, weights, *token_embeddings = map(files.single, paths)
    beside = files.folder(weights.path.parent)
    for member in token_embeddings:
        beside |= files.folder(member.path.parent)
    return bilm_hdf5.load(
        options, weights, beside=beside, token_embeddings=token_embeddings[0] if token_embeddings else None
    )


def _load_hdf5(weights: Member, members: Members) -> Model:
    from elmokit.weights import bilm_hdf5

    return bilm_hdf5.load(bilm_hdf5.companion(weights, _options(members), "options"), weights, beside=members)


def _only_weights(candidates: list[Member], place: Path) -> Member:
    """The weights file among several HDF5 files."""
    from elmokit.weights import bilm_hdf5

    if len(candidates) == 1:
        return candidates[0]
    weights, unreadable = [], []
    for member in candidates:
        try:
            weights += [member] if bilm_hdf5.holds_weights(member) else []
        except FormatError as error:
            unreadable.append(error)
    if len(weights) == 1:
        return weights[0]
    if unreadable and not weights:
        raise unreadable[0]
    names = ", ".join(member.name for member in weights or candidates)
    raise FormatError(
        f"{place}: expected the weights of one model, found {len(weights)} in {names}; leave one there, or pass "
        "(options, weights) in Python"
    )


def _options(members: Members) -> list[Member]:
    """JSON files that describe a biLM: those named *options.json if there are any, else all."""
    jsons = [member for name, member in members.items() if name.lower().endswith(".json")]
    named = [member for member in jsons if member.name.lower().endswith("options.json")]
    # report a damaged file of the right name rather than skip it
    return _describing_a_bilm(named) or _describing_a_bilm(jsons) or named


def _describing_a_bilm(candidates: list[Member]) -> list[Member]:
    found = []
    for member in candidates:
        try:
            content = member.json() if member.kind() == "JSON" else None
        except (ElmoError, OSError):  # damaged, too large, or no permission: not a candidate
            continue
        found += [member] if isinstance(content, dict) and "lstm" in content else []
    return found


def _only_options(members: Members) -> Member | None:
    candidates = _options(members)
    return candidates[0] if len(candidates) == 1 else None


def _existing(model: PathLike) -> Path:
    if isinstance(model, str) and "://" in model:
        raise FormatError(f"{model}: expected a path on this machine, found a web address; download it first")
    path = Path(os.path.expanduser(model))  # Path.expanduser raises an error for unknown users
    if not path.exists():
        names = ", ".join([*_packaged_models(), *_installed_models()]) or "none"
        raise FormatError(f"{path}: expected a model file or folder, found nothing there; installed models: {names}")
    return path


def _packaged_models() -> dict[str, Path]:
    """Models included in the package, by name."""
    root = Path(str(resources.files("elmokit"))) / "models"
    if not root.is_dir():
        return {}
    return {child.name: child for child in sorted(root.iterdir()) if (child / native.WEIGHTS).is_file()}


def _named(name: str) -> Path | None:
    """Folder of a packaged or installed model; None for a path."""
    if Path(name).exists():
        return None
    if (folder := _packaged_models().get(name)) is not None:
        return folder
    point = _installed_models().get(name)
    return None if point is None else Path(str(resources.files(point.module)))


def _installed_models() -> dict[str, EntryPoint]:
    """Models of other installed packages: entry points of the group `elmokit.models`, whose module is the folder."""
    return {point.name: point for point in entry_points(group="elmokit.models")}


def is_packaged(model: ModelName | None) -> bool:
    """Whether this is the packaged model: None, or its name."""
    return model is None or (isinstance(model, str) and _named(model) == _packaged())


def _packaged() -> Path:
    packaged = _packaged_models()
    if len(packaged) != 1:
        found = ", ".join(packaged) or "none"
        raise FormatError(
            f"elmokit/models: expected one packaged model, found {found}; name a model, or install elmokit again"
        )
    return next(iter(packaged.values()))
