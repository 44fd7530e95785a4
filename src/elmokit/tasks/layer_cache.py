"""The layers of a frozen biLM, computed once and kept on disk: a task then trains in minutes.

    CACHE/layers/<fingerprint of the model>-<state>/<name>.npy    (N, L + 1, 2D) float16: sentences one after another
                                                    <name>.json   which sentences, where; and a checksum

Every distinct sentence of a model is kept once, whichever file, task or run it came from. A run computes what is
missing into new pairs of files, each complete or not there: the JSON file comes last, and is what counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError, FormatError, OutputError
from elmokit.text.batch import windows

FILE_BYTES = 256 * 2**20  # of one pair of files, about: what a run that is killed loses at most
LIMIT = 20 * 2**30
_VERSION = 1
_CHUNK = 16 * 2**20  # bytes whose checksum is taken at a time

Tokens = tuple[str, ...]
Progress = Callable[[int, int], None]  # called with the tokens done and all tokens to do


class LayerSource(Protocol):
    """Where the layers of sentences come from."""

    def rows(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """(N, L + 1, 2D) float16 of all tokens, one after another."""


class LiveLayers:
    """Layers computed when they are asked for; rounded as those of the cache are, so that both predict alike."""

    def __init__(self, elmo: Elmo) -> None:
        self._elmo = elmo

    def rows(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """(N, L + 1, 2D) float16 of all tokens, one after another."""
        embedded = self._elmo.embed([list(sentence) for sentence in sentences])
        return torch.cat([torch.from_numpy(e.layers.astype(np.float16)).transpose(0, 1) for e in embedded])


@dataclass(frozen=True)
class _File:
    """A pair of files, as its JSON says."""

    path: Path  # of the JSON
    checksum: int
    shape: tuple[int, int, int]  # (N, L + 1, 2D)
    sentences: dict[str, tuple[int, int]]  # key of a sentence: its first row, and its length

    @property
    def data(self) -> Path:
        return self.path.with_suffix(".npy")

    def load(self) -> Tensor:
        """(N, L + 1, 2D) memory-mapped; a FormatError if it is not what was written."""
        try:
            # "copy on write" and not "read only", of which torch would warn; nobody writes
            array = np.load(self.data, mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise FormatError(f"{self.data}: {error}") from None
        if array.shape != self.shape or array.dtype != np.float16 or _checksum(array) != self.checksum:
            raise FormatError(f"{self.data}: expected the checksum of its content, found another")
        return torch.from_numpy(np.asarray(array))


class CachedLayers:
    """Layers of sentences that are in memory-mapped files."""

    def __init__(self, places: dict[Tokens, Tensor], n_layers: int, dim: int) -> None:
        self._places = places  # (n, L + 1, 2D) of every sentence
        self._nothing = torch.zeros(0, n_layers, dim, dtype=torch.float16)

    def rows(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """(N, L + 1, 2D) float16 of all tokens, one after another."""
        return torch.cat([self._places[tuple(sentence)] if sentence else self._nothing for sentence in sentences])


@dataclass(frozen=True)
class CacheEntry:
    """What the cache has of one model and state."""

    model: str  # fingerprint
    state: str
    sentences: int
    tokens: int
    bytes: int
    last_used: float  # seconds since 1970


class LayerCache:
    """A folder of layers, at most `limit` bytes of them, of any number of models."""

    def __init__(self, folder: Path | None = None, *, limit: int = LIMIT) -> None:
        """folder: by default `elmokit` in $XDG_CACHE_HOME, or in ~/.cache."""
        self.root = (folder or default_folder()) / "layers"
        self.limit = limit

    def layers(
        self, elmo: Elmo, sentences: Sequence[Sequence[str]], *, progress: Progress = lambda done, total: None
    ) -> CachedLayers:
        """The layers of these sentences: found, or computed now and kept."""
        config = elmo.config
        wanted = {tuple(sentence): _key(sentence) for sentence in sentences if sentence}
        row = 2 * config.n_vectors * config.vector_dim  # bytes of a token
        self._require_room(row * sum(map(len, wanted)))
        folder = self.root / f"{elmo.model.fingerprint}-{elmo.state}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            found = self._find(folder, wanted)
            if len(found) < len(wanted):
                with _locked(folder / ".lock"):
                    found = self._find(folder, wanted)  # another process may have computed them meanwhile
                    missing = [tokens for tokens in wanted if tokens not in found]
                    self._evict(row * sum(map(len, missing)), folder, set(wanted.values()))
                    self._compute(elmo, folder, missing, row, progress)
                    found = self._find(folder, wanted)
            if len(found) < len(wanted):
                raise OutputError(
                    f"{folder}: expected the layers that were just written, found them damaged or deleted; try again, "
                    "or choose another --cache-dir"
                )
        except OSError as error:
            raise OutputError(
                f"{folder}: cannot be written: {error.strerror or error}; make room, or choose another --cache-dir"
            ) from None
        return CachedLayers(found, config.n_vectors, config.vector_dim)

    def entries(self) -> list[CacheEntry]:
        """What is there, the last used first."""
        entries = []
        for folder in self._folders():
            model, _, state = folder.name.rpartition("-")
            files = list(_files(folder))
            if files:
                lengths = [n for file in files for _, n in file.sentences.values()]
                size, used = sum(map(_size, files)), max(map(_last_used, files))
                entries.append(CacheEntry(model, state, len(lengths), sum(lengths), size, used))
        return sorted(entries, key=lambda entry: -entry.last_used)

    def clear(self, model: str | None = None) -> int:
        """Delete everything, or what is of a model whose fingerprint begins so; returns the bytes that are free now."""
        freed = 0
        for folder in self._folders():
            if folder.name.startswith(model or ""):
                with _locked(folder / ".lock"):
                    for path in (*folder.glob("*.json"), *folder.glob("*.npy"), *folder.glob("*.new")):
                        freed += path.stat().st_size
                        path.unlink()
        return freed

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.root.glob("*-*") if path.is_dir())

    def _require_room(self, needed: int) -> None:
        if needed > self.limit:
            raise ConfigError(
                f"--cache-limit: expected room for the {needed / 1e9:.3f} GB of this text, found "
                f"{self.limit / 1e9:.3f} GB"
            )

    def _find(self, folder: Path, wanted: dict[Tokens, str]) -> dict[Tokens, Tensor]:
        """Of the wanted sentences those that are there; what is broken is deleted, what is used is marked as such."""
        found: dict[Tokens, Tensor] = {}
        for file in _files(folder):
            here = [tokens for tokens, key in wanted.items() if tokens not in found and key in file.sentences]
            if not here:
                continue
            try:
                rows = file.load()
            except FormatError:
                _delete(file)
                continue
            os.utime(file.path)
            for tokens in here:
                start, n = file.sentences[wanted[tokens]]
                found[tokens] = rows[start : start + n]
        return found

    def _evict(self, needed: int, folder: Path, wanted: set[str]) -> None:
        """Make room, beginning with what was not used for the longest time; what is wanted now stays."""
        files = [file for each in self._folders() for file in _files(each)]
        total = needed + sum(map(_size, files))
        for file in sorted(files, key=_last_used):
            if total <= self.limit:
                break
            if file.path.parent != folder or not file.sentences.keys() & wanted:
                total -= _size(file)
                _delete(file)

    def _compute(self, elmo: Elmo, folder: Path, missing: list[Tokens], row: int, progress: Progress) -> None:
        for left_behind in (*folder.glob("*.new"), *(p for p in folder.glob("*.npy") if not _index_of(p).exists())):
            left_behind.unlink()  # by a process that was killed; we hold the lock
        done, total = 0, sum(map(len, missing))
        progress(done, total)
        embedded = elmo.embed([list(tokens) for tokens in missing])
        for part in windows(missing, len, max(1, FILE_BYTES // row)):
            n_rows = sum(map(len, part))
            shape = (n_rows, elmo.config.n_vectors, elmo.config.vector_dim)
            path = folder / f"{uuid.uuid4().hex}.npy"
            start, checksum, places = 0, 0, {}
            with _beside(path) as beside, beside.open("wb") as file:
                header = {"descr": "<f2", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)  # type: ignore[no-untyped-call]
                for tokens, sentence in zip(part, embedded, strict=False):
                    rows = np.ascontiguousarray(sentence.layers.transpose(1, 0, 2).astype("<f2"))  # (n, L + 1, 2D)
                    if not np.isfinite(rows).all():
                        raise FormatError(f"the biLM gives numbers that are no number or past 65,504 for {tokens[:9]}")
                    file.write(rows.data)
                    checksum = zlib.crc32(rows.data, checksum)
                    places[_key(tokens)] = (start, len(tokens))
                    start, done = start + len(tokens), done + len(tokens)
                    progress(done, total)
            index = {"version": _VERSION, "checksum": checksum, "shape": shape, "sentences": places}
            with _beside(_index_of(path)) as beside:
                beside.write_text(json.dumps(index), encoding="utf-8")


def default_folder() -> Path:
    """Where caches are: `elmokit` in $XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmokit"


def _key(sentence: Sequence[str]) -> str:
    """What stands for a sentence; equal only for equal tokens."""
    return hashlib.blake2b(json.dumps(list(sentence)).encode(), digest_size=16).hexdigest()


def _index_of(data: Path) -> Path:
    return data.with_suffix(".json")


def _files(folder: Path) -> Iterator[_File]:
    """The pairs of files of a folder; an index that cannot be read is deleted with its data."""
    for path in sorted(folder.glob("*.json")):
        try:
            index = json.loads(path.read_text(encoding="utf-8"))
            if index["version"] != _VERSION:
                raise ValueError
            places = {key: (int(start), int(n)) for key, (start, n) in index["sentences"].items()}
            n_rows, n_layers, dim = index["shape"]
            yield _File(path, index["checksum"], (n_rows, n_layers, dim), places)
        except FileNotFoundError:
            continue  # another process has evicted it
        except (ValueError, KeyError, TypeError, AttributeError):
            path.unlink(missing_ok=True)
            path.with_suffix(".npy").unlink(missing_ok=True)


def _size(file: _File) -> int:
    with suppress(FileNotFoundError):
        return file.data.stat().st_size + file.path.stat().st_size
    return 0


def _last_used(file: _File) -> float:
    with suppress(FileNotFoundError):
        return file.path.stat().st_mtime
    return 0


def _delete(file: _File) -> None:
    """The index first: without it the data count for nothing. Who has them open keeps them."""
    file.path.unlink(missing_ok=True)
    with suppress(PermissionError):  # of systems that keep open files; the next process deletes them
        file.data.unlink(missing_ok=True)


def _checksum(array: NDArray[np.float16]) -> int:
    data, checksum = np.asarray(array).reshape(-1).view(np.uint8).data, 0
    for start in range(0, len(data), _CHUNK):
        checksum = zlib.crc32(data[start : start + _CHUNK], checksum)
    return checksum


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A path to write to, that becomes `path` when all went well, and vanishes if not."""
    beside = path.with_name(f"{path.name}.new")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process computes layers of the same model. Where the system has no locks, both compute."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
