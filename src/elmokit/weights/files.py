"""Files of a model, in a folder or elsewhere, and folders that appear all at once or not at all."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from elmokit.errors import FormatError, OutputError

MAX_TEXT = 256 * 1024 * 1024  # bytes of a vocabulary, an alphabet, an options file: beyond is no model

MARKS = ("options.json", "config.json")  # a folder that is overwritten must have one of these: else it is no model;
PARTS = {  # and nothing but these, the files of all formats that are written: else other work would go with it
    *MARKS, "README.md", "vocabulary.txt", "alphabet.json", "weights.safetensors", "softmax.safetensors",
    "weights.hdf5", "softmax_weights.hdf5", "elmo.th", "architecture.json", "encoder.pkl", "token_embedder.pkl",
    "char.dic", "word.dic", "vocab.txt", "vocab.txt.gz",
}  # fmt: skip

MAGIC = (
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"PK\x03\x04", "a zip"),
    (b"\x80", "a pickle"),
    (b"\x1f\x8b", "gzip"),
    (b"version https://git-lfs", "a git LFS pointer instead of the file (run `git lfs pull`)"),
    (b"{", "JSON"),
)


@dataclass(frozen=True)
class Member:
    """One file of a model: on disk, or inside a zip."""

    name: str  # without folders
    path: Path  # the file on disk that it is, or is inside of
    open: Callable[[], BinaryIO]  # seekable

    @property
    def label(self) -> str:
        """How errors call it."""
        return str(self.path) if self.path.name == self.name else f"{self.path}/{self.name}"

    @property
    def container(self) -> Path:
        """The folder or zip that it is in."""
        return self.path.parent if self.path.name == self.name else self.path

    def read(self, limit: int = MAX_TEXT) -> bytes:
        """The whole content of a small file."""
        with self.open() as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise FormatError(f"{self.label}: expected at most {limit} bytes, found more")
        return content

    def kind(self) -> str:
        """What the first bytes say it is: "HDF5", "a zip", "a pickle", "text", ..."""
        with self.open() as file:
            head = file.read(64)
        for magic, kind in MAGIC:
            if head.startswith(magic):
                return kind
        if not head:
            return "an empty file"
        printable = all(byte >= 32 or byte in b"\t\r\n" for byte in head)
        return f"text starting with {head[:20].decode('utf-8', 'replace')!r}" if printable else "unknown binary data"

    def json(self, limit: int = MAX_TEXT) -> Any:
        """The parsed content."""
        try:
            return json.loads(self.read(limit))
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{self.label}: expected JSON, found {self.kind()} ({error})") from None


Members = Mapping[str, Member]  # by name


def single(path: Path) -> Member:
    """A file on disk."""
    return Member(path.name, path, lambda: path.open("rb"))


def folder(path: Path) -> dict[str, Member]:
    """The files of a folder on disk, by name."""
    return {child.name: single(child) for child in sorted(path.iterdir()) if child.is_file()}


def read_words(member: Member) -> tuple[str, ...]:
    """A vocabulary file in the published form: a word a line, stripped; gzip or not."""
    content = member.read()
    if content.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(io.BytesIO(content)) as file:
                content = file.read(MAX_TEXT + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{member.label}: expected gzip, found a damaged file ({error})") from None
        if len(content) > MAX_TEXT:
            raise FormatError(f"{member.label}: expected at most {MAX_TEXT} bytes of words, found more")
    # not splitlines(), which also breaks at characters that can be part of a word
    lines = io.StringIO(decode(content, member), newline=None)
    return tuple(word for word in map(str.strip, lines) if word != "!!!MAXTERMID")


def decode(content: bytes, member: Member) -> str:
    """UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{member.label}: expected UTF-8, found byte {error.object[error.start]:#x} in line {line}"
        ) from None


def read_card(members: Members) -> tuple[str | None, str | None]:
    """The model card (README.md) and the licence that its front matter names."""
    if "README.md" not in members:
        return None, None
    card = members["README.md"].read().decode("utf-8", "replace")
    front = re.match(r"---\r?\n(.*?)\r?\n---", card, re.DOTALL)
    licence = re.search(r"^licen[cs]e:[ \t]*(\S.*?)[ \t\r]*$", front.group(1), re.MULTILINE) if front else None
    return card, licence.group(1).strip("\"'") if licence else None


@contextmanager
def new_folder(folder: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """A temporary sibling to write into, which becomes `folder` at the end, or vanishes with any error.

    With `overwrite` the old folder steps aside only when the new one is complete, and steps back if that fails.
    """
    target = Path(os.path.realpath(os.path.expanduser(folder)))  # of a link, what it leads to
    if target.exists():
        if not overwrite:
            raise OutputError(f"{target}: exists already; choose another name, or allow to overwrite it")
        found = {path.name for path in target.iterdir()} if target.is_dir() else {target.name}
        if found and not (target.is_dir() and found & {*MARKS} and found <= PARTS):
            others = ", ".join(sorted(found - PARTS)[:3]) or "no options.json or config.json"
            raise OutputError(
                f"{target}: expected a model folder to overwrite, and nothing else in it, found {others}; it stays as "
                "it is"
            )
    mark = secrets.token_hex(4)
    fresh, old = (target.with_name(f".{target.name}.{kind}-{mark}") for kind in ("new", "old"))
    try:
        fresh.mkdir(parents=True)
        yield fresh
        try:
            if target.exists():
                target.rename(old)
            fresh.rename(target)
        except BaseException:  # also an interrupt
            if old.exists() and not target.exists():
                old.rename(target)
            raise
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
