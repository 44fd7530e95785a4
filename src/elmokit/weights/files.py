"""Model files, in a folder or a zip."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from elmokit.config import ModelConfig
from elmokit.disk.json_file import parse_json, read_json
from elmokit.disk.limits import exceeded, limits
from elmokit.disk.manifest import Checked, Manifest
from elmokit.disk.unpack import DAMAGED, decompressed
from elmokit.disk.whole import new_folder
from elmokit.errors import ConfigError, FormatError

TRANSFORMERS_TYPE = "elmo"  # `model_type` in the config.json of a folder for transformers
MANY_LANGS_CONFIG = {"config_path": "architecture.json"}  # config.json of an ELMoForManyLangs folder, as we write it


def _is_options(path: Path) -> bool:
    """Whether a file is the options.json of a biLM, ours or published: a model can be converted in place."""
    try:
        ModelConfig.from_options(read_json(path))
    except (FormatError, ConfigError):
        return False
    return True


def _is_config(path: Path) -> bool:
    """Whether a file is a config.json written by elmokit, for transformers or ELMoForManyLangs."""
    try:
        content = read_json(path)
        if content == MANY_LANGS_CONFIG:
            return True
        if not isinstance(content, dict) or content.get("model_type") != TRANSFORMERS_TYPE or "options" not in content:
            return False
        ModelConfig.from_options(content["options"])
    except (FormatError, ConfigError):
        return False
    return True


def _beside(name: str, check: Callable[[Path], bool], *files: str) -> tuple[Checked, ...]:
    """Files that belong to a model if the file that describes it, in the same folder, passes the check."""
    return tuple(Checked(file, lambda path: check(path.with_name(name))) for file in files)


NATIVE_FOLDER = Manifest(  # our own format
    "a model folder",
    marks=(Checked("options.json", _is_options),),
    parts=(
        "README.md",
        *_beside(
            "options.json", _is_options, "vocabulary.txt", "alphabet.json", "weights.safetensors",
            "softmax.safetensors",
        ),
    ),
)  # fmt: skip
MODEL_FOLDER = Manifest(  # all formats that can be written
    "a model folder",
    marks=(*NATIVE_FOLDER.marks, Checked("config.json", _is_config)),
    parts=(
        *NATIVE_FOLDER.parts,
        *_beside(
            "options.json", _is_options, "weights.hdf5", "softmax_weights.hdf5", "elmo.th", "vocab.txt", "vocab.txt.gz",
        ),
        *_beside(
            "config.json", _is_config, "vocabulary.txt", "alphabet.json", "architecture.json", "encoder.pkl",
            "token_embedder.pkl", "char.dic", "word.dic", "vocab.txt", "vocab.txt.gz", "model.safetensors",
            "tokenizer_config.json", "added_tokens.json", "modeling_elmo.py",
        ),
    ),
)  # fmt: skip

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
    """One model file, on disk or inside a zip."""

    name: str  # without folders
    path: Path  # the file on disk, or the zip that contains it
    open: Callable[[], BinaryIO]  # seekable

    @property
    def label(self) -> str:
        """Name in error messages."""
        return str(self.path) if self.path.name == self.name else f"{self.path}/{self.name}"

    @property
    def container(self) -> Path:
        """Folder or zip that contains the file."""
        return self.path.parent if self.path.name == self.name else self.path

    def read(self) -> bytes:
        """Read a small file completely."""
        limit = limits().text
        with self.open() as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise exceeded(self.label, f"expected at most {limit:,} bytes, found more")
        return content

    def kind(self) -> str:
        """File type by its first bytes: "HDF5", "a zip", "a pickle", "text", ..."""
        with self.open() as file:
            head = file.read(64)
        for magic, kind in MAGIC:
            if head.startswith(magic):
                return kind
        if not head:
            return "an empty file"
        printable = all(byte >= 32 or byte in b"\t\r\n" for byte in head)
        return f"text starting with {head[:20].decode('utf-8', 'replace')!r}" if printable else "unknown binary data"

    def json(self) -> Any:
        """Parse the file as JSON."""
        try:
            return parse_json(self.read(), self.label)
        except FormatError:
            if "JSON" in (kind := self.kind()) or kind.startswith("text"):
                raise
            raise FormatError(f"{self.label}: expected JSON, found {kind}") from None


Members = Mapping[str, Member]  # by name


def single(path: Path) -> Member:
    """Member for a file on disk."""
    return Member(path.name, path, lambda: path.open("rb"))


def folder(path: Path) -> dict[str, Member]:
    """Files of a folder on disk, by name."""
    return {child.name: single(child) for child in sorted(path.iterdir()) if child.is_file()}


def read_words(member: Member) -> tuple[str, ...]:
    """Read a vocabulary in the published format: one word per line, stripped; optionally gzipped."""
    content, most = member.read(), limits().text
    if content.startswith(b"\x1f\x8b"):
        try:
            content = decompressed(io.BytesIO(content), ".gz", member.label).read(most + 1)
        except (OSError, *DAMAGED) as error:
            raise FormatError(f"{member.label}: expected gzip, found a damaged file ({error})") from None
        if len(content) > most:
            raise exceeded(member.label, f"expected at most {most:,} bytes of words, found more")
    check_word_count(content, member.label)
    # not splitlines(), which also splits at characters that can be part of a word
    lines = io.StringIO(decode(content, member), newline=None)
    return tuple(word for word in map(str.strip, lines) if word != "!!!MAXTERMID")


def check_word_count(content: bytes, label: str) -> None:
    """Raise a FormatError for too many words: as Python strings they can take thirty times the file size."""
    if (found := content.count(b"\n") + content.count(b"\r")) > limits().words:
        raise exceeded(label, f"expected at most {limits().words:,} words, found {found:,}")


def decode(content: bytes, member: Member) -> str:
    """Decode UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{member.label}: expected UTF-8, found byte {error.object[error.start]:#x} in line {line}"
        ) from None


def read_card(members: Members) -> tuple[str | None, str | None]:
    """Model card (README.md) and the license in its front matter."""
    if "README.md" not in members:
        return None, None
    card = members["README.md"].read().decode("utf-8", "replace")
    return card, card_field(card, "license") or card_field(card, "licence")


def card_field(card: str | None, name: str) -> str | None:
    """A field of the front matter of a model card, such as its license or language."""
    front = re.match(r"---\r?\n(.*?)\n---", card or "", re.DOTALL)
    field = re.search(rf"^{name}:(.*)$", front.group(1), re.MULTILINE) if front else None
    return (field.group(1).strip().strip("\"'") or None) if field else None


def new_model_folder(folder: str | os.PathLike[str], *, overwrite: bool) -> AbstractContextManager[Path]:
    """Atomically created model folder; with `overwrite` it replaces an existing one."""
    return new_folder(folder, replaces=MODEL_FOLDER, overwrite=overwrite)
