"""A name or a path to a model: what format it has is found out, never asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from elmokit.errors import ElmoError, FormatError
from elmokit.weights import files, native
from elmokit.weights.files import Member, Members
from elmokit.weights.model import Model

# The rooms of the foreign formats are imported where they are needed: our own models load without h5py.

PathLike = str | os.PathLike[str]
ModelName = PathLike | Sequence[PathLike]

KNOWN = (
    "a native folder (options.json, weights.safetensors), options.json with an HDF5 file, an ELMoForManyLangs folder, "
    "a zip of one of the last two, or an AllenNLP state dict"
)


def load(model: ModelName | None = None) -> Model:
    """Load a model of any known format.

    `model`: a folder, a file, the name of a packaged model, a pair (options, weights) of the published format, or that
    pair with a file of token embeddings that replaces the characters. None is the packaged model.
    """
    if model is None:
        return native.load(_packaged())
    if not isinstance(model, (str, os.PathLike)):
        return _load_pair([_existing(part) for part in model])
    if isinstance(model, str) and (folder := _packaged_models().get(model)) is not None and not Path(model).exists():
        return native.load(folder)
    path = _existing(model)
    if path.is_dir():
        return _load_members(files.folder(path), path)
    return _load_file(path)


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
    """The model that a folder or a zip holds."""
    if native.WEIGHTS in members:
        if place.is_dir():
            return native.load(place)
        raise FormatError(f"{place}: expected a folder for a native model, found a zip; unpack it first")
    from elmokit.weights import allennlp, bilm_hdf5, efml

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
    """The weights among several HDF5 files."""
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
    """The JSON files that describe a biLM: those called options if there are any, else whatever their names."""
    jsons = [member for name, member in members.items() if name.lower().endswith(".json")]
    named = [member for member in jsons if member.name.lower().endswith("options.json")]
    # a damaged file of the right name is better reported than passed over
    return _describing_a_bilm(named) or _describing_a_bilm(jsons) or named


def _describing_a_bilm(candidates: list[Member]) -> list[Member]:
    found = []
    for member in candidates:
        try:
            content = member.json(limit=1024**2) if member.kind() == "JSON" else None
        except (ElmoError, OSError):  # damaged, far too large, or not for us to read: not what is looked for
            continue
        found += [member] if isinstance(content, dict) and "lstm" in content else []
    return found


def _only_options(members: Members) -> Member | None:
    candidates = _options(members)
    return candidates[0] if len(candidates) == 1 else None


def _existing(model: PathLike) -> Path:
    if isinstance(model, str) and "://" in model:
        raise FormatError(f"{model}: expected a path on this machine, found a web address; download it first")
    path = Path(os.path.expanduser(model))  # that of pathlib fails where there is no such user
    if not path.exists():
        packaged = ", ".join(_packaged_models()) or "none"
        raise FormatError(f"{path}: expected a model file or folder, found nothing there; packaged models: {packaged}")
    return path


def _packaged_models() -> dict[str, Path]:
    """The models that come with the package, by name."""
    root = Path(str(resources.files("elmokit"))) / "models"
    if not root.is_dir():
        return {}
    return {child.name: child for child in sorted(root.iterdir()) if (child / native.WEIGHTS).is_file()}


def _packaged() -> Path:
    packaged = _packaged_models()
    if len(packaged) != 1:
        found = ", ".join(packaged) or "none"
        raise FormatError(
            f"elmokit/models: expected one packaged model, found {found}; name a model, or install elmokit again"
        )
    return next(iter(packaged.values()))
