"""Published ELMo weights: maps the URLs in old code to files in a local folder. Nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from elmokit.errors import ConfigError

VARIABLE = "ELMOKIT_MODELS"  # environment variable that names the folder

_ROOT = "https://allennlp.s3.amazonaws.com/models/elmo/"
_ORIGINAL = "elmo_2x4096_512_2048cnn_2xhighway"


def _pair(folder: str, name: str) -> tuple[str, str]:
    return f"{_ROOT}{folder}/{name}_options.json", f"{_ROOT}{folder}/{name}_weights.hdf5"


# Short name -> (options, weights). The names are those of flair's `ELMoEmbeddings`.
ADDRESSES: dict[str, tuple[str, str]] = {
    "original": _pair("2x4096_512_2048cnn_2xhighway", _ORIGINAL),
    "small": _pair("2x1024_128_2048cnn_1xhighway", "elmo_2x1024_128_2048cnn_1xhighway"),
    "medium": _pair("2x2048_256_2048cnn_1xhighway", "elmo_2x2048_256_2048cnn_1xhighway"),
    "5.5B": _pair("2x4096_512_2048cnn_2xhighway_5.5B", f"{_ORIGINAL}_5.5B"),
    "pt": _pair("contributed/pt", "elmo_pt"),
    "pubmed": (
        f"{_ROOT}contributed/pubmed/{_ORIGINAL}_options.json",
        f"{_ROOT}contributed/pubmed/{_ORIGINAL}_weights_PubMed_only.hdf5",
    ),
}
ADDRESSES |= {"large": ADDRESSES["5.5B"], "portuguese": ADDRESSES["pt"]}

DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE = ADDRESSES["original"]

PathLike = str | os.PathLike[str]

_folder: Path | None = None


def set_models_folder(folder: PathLike | None) -> None:
    """Set the folder of published files; None restores the environment variable ELMOKIT_MODELS."""
    global _folder
    _folder = None if folder is None else Path(folder)


def published_files(name: str) -> tuple[str, str]:
    """Options and weight file of a published model, by short name: original, small, medium, 5.5B, pt or pubmed.

    >>> elmo = elmokit.Elmo.from_pretrained(published_files("small"))
    """
    if name not in ADDRESSES:
        raise ConfigError(f"published model: expected {', '.join(ADDRESSES)}, found {name!r}")
    options, weights = local_files(*ADDRESSES[name])
    assert options is not None and weights is not None
    return options, weights


def local_files(*files: PathLike | None) -> tuple[str | None, ...]:
    """Replace every URL by the path of a local copy.

    A copy is searched by the file name of the URL, in the folder itself or in subfolders named as in the URL:
    `elmo_pt_options.json`, `pt/elmo_pt_options.json`, `contributed/pt/elmo_pt_options.json`, ...
    """
    paths = [None if file is None else os.fspath(file) for file in files]
    found = [_local(path) if path is not None and is_address(path) else path for path in paths]
    missing = [PurePosixPath(path).name for path, copy in zip(paths, found, strict=True) if path and copy is None]
    if missing:
        folder = _models_folder()
        needed = " and ".join(PurePosixPath(path).name for path in paths if path and is_address(path))
        where = "no folder is set" if folder is None else f"{' and '.join(missing)} not found in {folder}"
        raise ConfigError(
            f"published weights are not downloaded: put {needed} into one folder and set {VARIABLE} to it ({where})"
        )
    return tuple(found)


def is_address(path: str) -> bool:
    """Whether a path is a URL."""
    return "://" in path


def _local(address: str) -> str | None:
    folder = _models_folder()
    if folder is None:
        return None
    parts = [part for part in PurePosixPath(urlsplit(address).path).parts if part not in ("/", "..", ".")]
    for start in range(len(parts)):  # most specific path first: two published models share an options file name
        path = folder.joinpath(*parts[start:])
        if path.is_file():
            return str(path)
    return None


def _models_folder() -> Path | None:
    if _folder is not None:
        return _folder
    value = os.environ.get(VARIABLE)
    return Path(os.path.expanduser(value)) if value else None


def cached_path(url_or_filename: PathLike) -> str:
    """Local copy of a published file, as `allennlp.common.file_utils.cached_path`; other paths are unchanged."""
    (path,) = local_files(url_or_filename)
    assert path is not None
    return path
