"""Folders of Parquet shards, written independently by one or more processes; each shard is complete or absent.

A shard is a run of consecutive lines of one input file. Its name and its lines follow from the inputs alone, so a shard
that is computed twice is the same file, and a missing one can be computed at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmokit.disk.json_file import read_json, write_json
from elmokit.disk.whole import new_shared_file
from elmokit.embed.layer_choice import Layers
from elmokit.embed.parquet import ParquetWriter, Rows
from elmokit.embed.record import Record, RecordLayout
from elmokit.embed.sentence import Pool
from elmokit.embed.source import TextSource, chunks
from elmokit.errors import ConfigError, FormatError, InputError, OutputError
from elmokit.text.lines import EncodingErrors

if TYPE_CHECKING:
    from elmokit.embed.elmo import Elmo

# written before the first shard and after the last; readers of Parquet folders skip names with an underscore
PLAN, MANIFEST = "_plan.json", "_manifest.json"
_VERSION = 1  # of the names, the plan and the cut into shards


@dataclass(frozen=True)
class Reading:
    """Settings for splitting files into sentences and shards."""

    characters: int  # per shard, at least; line ends included
    split: bool = False  # cut every line into its sentences
    encoding_errors: EncodingErrors = "strict"

    def source(self, path: str) -> TextSource:
        """Sentences of one file."""
        return TextSource([path], encoding_errors=self.encoding_errors, split=self.split)


@dataclass(frozen=True)
class Embedding:
    """Settings of the vectors that a shard holds."""

    layers: Layers = "all"
    tokenizer: str = "words"
    pool: Pool | None = None
    punctuation: bool = True
    rows: Rows = "tokens"
    batch_tokens: int | None = None  # does not change the vectors

    def layout(self, elmo: Elmo) -> RecordLayout:
        """Shape of a record."""
        return RecordLayout(
            dim=elmo.config.vector_dim,
            n_layers=elmo.config.n_vectors if self.layers == "all" and self.pool is None else None,
            pooled=self.pool is not None,
            dtype="float16" if elmo.dtype == "float16" else "float32",
        )


@dataclass(frozen=True)
class Shard:
    """Consecutive sentences of a file."""

    name: str  # of the Parquet file; sorts in the order of the text
    first: int  # number of its first sentence, counted over all files
    texts: list[str]
    lines: list[int]  # number of the line of each sentence, from 1


def expand(inputs: Sequence[str]) -> list[str]:
    """Absolute paths of the inputs; patterns such as `corpus/*.xz` are expanded, each sorted."""
    found: list[str] = []
    for item in inputs:
        if item == "-":
            raise InputError("standard input cannot be read by many machines; write it to a file first")
        matches = sorted(glob(item, recursive=True)) if has_magic(item) and not os.path.exists(item) else [item]
        if not matches:
            raise InputError(f"{item}: expected files that match, found none")
        found += [os.path.abspath(path) for path in matches]
    if len(set(found)) != len(found):
        raise InputError("expected every input file once, found one of them twice")
    return found


def shard_name(number: int, count: int) -> str:
    """Name of a shard: by the place of its file among the inputs, and its own in the file."""
    return f"part-{number:05d}-{count:06d}.parquet"


def shard_sizes(path: str, reading: Reading) -> list[int]:
    """Sentences of every shard of a file."""
    return [len(lines) for lines in chunks(reading.source(path), reading.characters)]


def read_shards(number: int, path: str, first: int, reading: Reading) -> Iterator[Shard]:
    """Shards of a file. number: place of the file among the inputs; first: number of its first sentence."""
    for count, lines in enumerate(chunks(reading.source(path), reading.characters)):
        texts, numbers = [line.text for line in lines], [line.number for line in lines]
        yield Shard(shard_name(number, count), first, texts, numbers)
        first += len(lines)


def write_shard(elmo: Elmo, folder: Path, shard: Shard, embedding: Embedding, *, split: bool = False) -> int:
    """Embed a shard into its file, which appears when it is complete; returns the number of tokens."""
    layout = embedding.layout(elmo)
    tokens = 0
    stream = elmo.embed(
        shard.texts,
        layers=embedding.layers,
        tokenizer=embedding.tokenizer,
        batch_tokens=embedding.batch_tokens,
        progress=False,
    )
    # a file of the same name is the same shard; the hidden temporary file is skipped by readers of Parquet folders
    with new_shared_file(folder / shard.name, advice="; continue with --resume") as fresh:
        writer = ParquetWriter(fresh, layout, rows=embedding.rows, first=shard.first)
        try:
            for text, line, sentence in zip(shard.texts, shard.lines, stream, strict=True):
                if embedding.pool is not None:
                    array = sentence.vector(embedding.pool, punctuation=embedding.punctuation)
                else:
                    array = sentence.layers if layout.n_layers is not None else sentence.vectors
                array = array.astype(layout.dtype, copy=False)
                writer.write(Record(text, sentence.tokens, sentence.offsets, array, line if split else None))
                tokens += len(sentence.tokens)
        finally:
            writer.close()
    return tokens


class ShardFolder:
    """Output folder: `_plan.json`, the shards, and at last `_manifest.json`, which says that it is complete."""

    def __init__(self, folder: Path, settings: dict[str, Any], files: dict[str, list[int]], *, resume: bool) -> None:
        """files: every input with the sentences of its shards; settings: what must be the same to resume."""
        self.folder = folder
        self.sizes = {shard_name(n, k): size for n, sizes in enumerate(files.values()) for k, size in enumerate(sizes)}
        plan = {
            "version": _VERSION,
            "settings": settings,
            "files": [{"name": os.path.basename(path), "shards": sizes} for path, sizes in files.items()],
        }
        self._plan = plan
        if not folder.exists():
            folder.mkdir(parents=True)
            write_json(folder / PLAN, plan)
        elif not folder.is_dir():
            raise OutputError(f"{folder}: expected a folder for the shards, found a file; choose another name")
        elif (folder / PLAN).is_file():
            if not resume:
                raise OutputError(f"{folder}: exists already; use --resume to continue it, or choose another name")
            _require_same(read_json(folder / PLAN), plan, folder)
        elif any(folder.iterdir()):
            raise OutputError(f"{folder}: expected a new folder or an unfinished one, found other files in it")
        else:
            write_json(folder / PLAN, plan)

    @property
    def complete(self) -> bool:
        """Whether an earlier run has written every shard."""
        return (self.folder / MANIFEST).is_file()

    def done(self) -> set[str]:
        """Names of the shards that are there."""
        return {path.name for path in self.folder.glob("part-*.parquet")}

    def finish(self) -> None:
        """Write the manifest, after a check that there is every shard and no other."""
        found = self.done()
        if missing := sorted(self.sizes.keys() - found):
            raise OutputError(
                f"{self.folder}: expected {missing[0]} and {len(missing) - 1} others, found none; use --resume"
            )
        if other := sorted(found - self.sizes.keys()):
            raise OutputError(f"{self.folder}: expected no {other[0]}, found it; move it away")
        for leftover in self.folder.glob(".part-*.parquet.*"):  # of killed actors: every shard is there, so none writes
            leftover.unlink(missing_ok=True)
        write_json(self.folder / MANIFEST, self._plan)


def _require_same(found: Any, expected: dict[str, Any], folder: Path) -> None:
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise FormatError(f"{folder / PLAN}: expected a plan of version {_VERSION}, found something else")
    if found.get("files") != expected["files"]:
        raise InputError(f"{folder}: expected the input files of the unfinished run, found other names or sentences")
    settings = found.get("settings")
    for name, value in expected["settings"].items():
        before = settings.get(name) if isinstance(settings, dict) else None
        if before != value:
            raise ConfigError(f"{name}: expected {before!r}, as in the unfinished run in {folder}, found {value!r}")
