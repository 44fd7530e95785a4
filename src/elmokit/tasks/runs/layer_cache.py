"""On-disk cache of the layers of a frozen biLM, so that a task trains in minutes.

    CACHE/layers/<fingerprint of the model>-<state>/<name>.npy    (N, L + 1, 2D) float16, sentences concatenated
                                                    <name>.json   sentence keys, row offsets and checksums

Every distinct sentence is stored once per model, whichever file, task or run it came from. A run writes missing
sentences to new pairs of files; the JSON file is written last, and a pair without it is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.disk.array_file import map_array
from elmokit.disk.json_file import from_json, parse_json, read_bytes
from elmokit.disk.lock import waiting_lock
from elmokit.disk.scratch import remove_leftovers
from elmokit.disk.whole import new_file
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError, FormatError, InputError, OutputError
from elmokit.text.batch import windows

FILE_BYTES = 256 * 2**20  # approximate size of one pair of files: the most work that a killed run loses
LIMIT = 20 * 2**30
_VERSION = 2  # since this version the checksum covers the index too; older files are recomputed
_CHUNK = 16 * 2**20  # bytes per checksum update

Tokens = tuple[str, ...]
CountProgress = Callable[[int, int], None]  # called with the tokens done and the total


class LayerSource(Protocol):
    """Source of the layers of sentences."""

    def rows(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Layers of all tokens, concatenated, (N, L + 1, 2D) float16."""


class LiveLayers:
    """Layers computed on demand, rounded to float16 like cached ones, so that both give the same predictions."""

    def __init__(self, elmo: Elmo) -> None:
        self._elmo = elmo

    def rows(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """(N, L + 1, 2D) float16 of all tokens, one after another."""
        embedded = self._elmo.embed([list(sentence) for sentence in sentences], progress=False)
        return torch.cat([torch.from_numpy(e.layers.astype(np.float16)).transpose(0, 1) for e in embedded])


@dataclass(frozen=True)
class _Index:
    """Content of the JSON file."""

    version: int
    checksum: int  # CRC-32 of the array data
    shape: tuple[int, int, int]
    sentences: dict[str, tuple[int, int]]
    sha256: str  # of the other fields, as JSON


@dataclass(frozen=True)
class _File:
    """A pair of files, as described by its JSON file."""

    path: Path  # of the JSON
    checksum: int
    shape: tuple[int, int, int]  # (N, L + 1, 2D)
    sentences: dict[str, tuple[int, int]]  # sentence key: first row and length

    @property
    def data(self) -> Path:
        return self.path.with_suffix(".npy")

    def load(self) -> Tensor:
        """Memory-map the layers, (N, L + 1, 2D); FormatError if the file is damaged."""
        # copy-on-write, because torch warns about read-only memory maps; nobody writes
        array = map_array(self.data, np.float16, 3, mode="c")
        if array.shape != self.shape or _checksum(array) != self.checksum:
            raise FormatError(f"{self.data}: expected the checksum of its content, found another")
        return torch.from_numpy(np.asarray(array))


class CachedLayers:
    """Layers of sentences in memory-mapped files."""

    def __init__(self, places: dict[Tokens, Tensor], n_layers: int, dim: int) -> None:
        self._places = places  # (n, L + 1, 2D) of every sentence
        self._nothing = torch.zeros(0, n_layers, dim, dtype=torch.float16)

    def rows(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Layers of all tokens, concatenated, (N, L + 1, 2D) float16."""
        return torch.cat([self._places[tuple(sentence)] if sentence else self._nothing for sentence in sentences])


@dataclass(frozen=True)
class CacheEntry:
    """Cache entry of one model and state policy."""

    model: str  # fingerprint
    state: str
    sentences: int
    tokens: int
    bytes: int
    last_used: float  # seconds since 1970


class LayerCache:
    """Layer cache in a folder, for any number of models, limited to `limit` bytes."""

    def __init__(self, folder: Path | None = None, *, limit: int = LIMIT) -> None:
        """folder: by default `elmokit` in $XDG_CACHE_HOME, or in ~/.cache."""
        self.root = (folder or default_folder()) / "layers"
        self.limit = limit

    def layers(
        self, elmo: Elmo, sentences: Sequence[Sequence[str]], *, progress: CountProgress = lambda done, total: None
    ) -> CachedLayers:
        """The layers of these sentences, from the cache or computed now and stored."""
        config = elmo.config
        wanted = {tuple(sentence): _key(sentence) for sentence in sentences if sentence}
        row = 2 * config.n_vectors * config.vector_dim  # bytes per token
        self._require_room(row * sum(map(len, wanted)))
        folder = self.root / f"{elmo.model.fingerprint}-{elmo.state}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
            found = self._find(folder, wanted)
            if len(found) < len(wanted):
                with waiting_lock(folder / ".lock"):
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
                f"{folder}: cannot be written: {error.strerror or error}; free space, or choose another --cache-dir"
            ) from None
        return CachedLayers(found, config.n_vectors, config.vector_dim)

    def entries(self) -> list[CacheEntry]:
        """List the entries, most recently used first."""
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
        """Delete all entries, or those whose fingerprint starts with the given prefix; returns the bytes freed."""
        freed = 0
        for folder in self._folders():
            if folder.name.startswith(model or ""):
                with waiting_lock(folder / ".lock"):
                    for path in (*folder.glob("*.json"), *folder.glob("*.npy"), *folder.glob("*.new")):
                        freed += path.stat().st_size
                        path.unlink()
        return freed

    def _folders(self) -> list[Path]:
        for place in (self.root.parent, self.root):
            if os.path.lexists(place) and not place.is_dir():
                raise InputError(f"{place}: expected the folder of a layer cache, found something else")
        return sorted(path for path in self.root.glob("*-*") if path.is_dir())

    def _require_room(self, needed: int) -> None:
        if needed > self.limit:
            raise ConfigError(
                f"--cache-limit: expected room for the {needed / 1e9:.3f} GB of this text, found "
                f"{self.limit / 1e9:.3f} GB"
            )

    def _find(self, folder: Path, wanted: dict[Tokens, str]) -> dict[Tokens, Tensor]:
        """Look up sentences; deletes damaged files and updates the access time of the files used."""
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
        """Evict the least recently used files, except those needed now."""
        files = [file for each in self._folders() for file in _files(each)]
        total = needed + sum(map(_size, files))
        for file in sorted(files, key=_last_used):
            if total <= self.limit:
                break
            if file.path.parent != folder or not file.sentences.keys() & wanted:
                total -= _size(file)
                _delete(file)

    def _compute(self, elmo: Elmo, folder: Path, missing: list[Tokens], row: int, progress: CountProgress) -> None:
        for orphan in (*folder.glob("*.new"), *(p for p in folder.glob("*.npy") if not _index_of(p).exists())):
            orphan.unlink()  # left by a killed process; we hold the lock
        done, total = 0, sum(map(len, missing))
        progress(done, total)
        embedded = elmo.embed([list(tokens) for tokens in missing], progress=False)
        for part in windows(missing, len, max(1, FILE_BYTES // row)):
            n_rows = sum(map(len, part))
            shape = (n_rows, elmo.config.n_vectors, elmo.config.vector_dim)
            path = folder / f"{uuid.uuid4().hex}.npy"
            start, checksum, places = 0, 0, {}
            with new_file(path) as fresh, fresh.open("wb") as file:
                header = {"descr": "<f2", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)  # type: ignore[no-untyped-call]
                for tokens, sentence in zip(part, embedded, strict=False):
                    rows = np.ascontiguousarray(sentence.layers.transpose(1, 0, 2).astype("<f2"))  # (n, L + 1, 2D)
                    if not np.isfinite(rows).all():
                        raise FormatError(
                            f"the biLM gives values that are NaN, infinite or above 65,504 for {tokens[:9]}"
                        )
                    file.write(rows.data)
                    checksum = zlib.crc32(rows.data, checksum)
                    places[_key(tokens)] = (start, len(tokens))
                    start, done = start + len(tokens), done + len(tokens)
                    progress(done, total)
            index = {"version": _VERSION, "checksum": checksum, "shape": shape, "sentences": places}
            with new_file(_index_of(path)) as fresh:
                fresh.write_text(json.dumps({**index, "sha256": _digest(index)}), encoding="utf-8")


def default_folder() -> Path:
    """Default cache folder: `elmokit` in $XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmokit"


def _key(sentence: Sequence[str]) -> str:
    """Cache key of a sentence, injective in its tokens."""
    return hashlib.blake2b(json.dumps(list(sentence)).encode(), digest_size=16).hexdigest()


def _index_of(data: Path) -> Path:
    return data.with_suffix(".json")


def _digest(index: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()


def _files(folder: Path) -> Iterator[_File]:
    """The pairs of files in a folder; an unreadable index is deleted with its data."""
    for path in sorted(folder.glob("*.json")):
        try:
            index = from_json(_Index, parse_json(read_bytes(path, 2**40), str(path)), str(path))
            content = {name: value for name, value in vars(index).items() if name != "sha256"}
            if index.version != _VERSION or index.sha256 != _digest(content):
                raise FormatError(f"{path}: expected the checksum of its content, found another")
            yield _File(path, index.checksum, index.shape, index.sentences)
        except FormatError:
            if path.exists():  # otherwise another process has evicted it
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
    """Delete a pair, index first: without it the data are ignored. Processes that have them open keep them."""
    file.path.unlink(missing_ok=True)
    with suppress(PermissionError):  # on systems that lock open files; the next process deletes them
        file.data.unlink(missing_ok=True)


def _checksum(array: NDArray[np.float16]) -> int:
    data, checksum = np.asarray(array).reshape(-1).view(np.uint8).data, 0
    for start in range(0, len(data), _CHUNK):
        checksum = zlib.crc32(data[start : start + _CHUNK], checksum)
    return checksum
