"""Checks of input lines that the old command `allennlp elmo` made: no blank lines, and sentences that can be keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from elmokit.embed.source import Line
from elmokit.errors import InputError

BlankLines = Literal["keep", "error"]


def checked(lines: Iterable[Line], *, blank_lines: BlankLines = "keep", sentence_keys: bool = False) -> Iterator[Line]:
    """The same lines; the first that breaks a rule is an error that names its place.

    sentence_keys: every line must be usable as the name of an HDF5 dataset, which a slash turns into a path.
    """
    seen: dict[str, str] = {}  # path of a dataset, or of a group around one -> "dataset" or "group"
    for line in lines:
        if blank_lines == "error" and not line.text.strip():
            raise InputError(f"{line.place}: expected words, found a blank line; remove it, or use --blank-lines keep")
        if sentence_keys:
            _add_key(seen, line)
        yield line


def _add_key(seen: dict[str, str], line: Line) -> None:
    parts = [part for part in sentence_key(line.text).split("/") if part not in ("", ".")]
    if not parts:
        raise InputError(f"{line.place}: cannot be a key; leave out --use-sentence-keys")
    paths = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    clash = paths[-1] in seen or any(seen.get(path) == "dataset" for path in paths[:-1])
    if clash:
        raise InputError(f"{line.place}: has the key of an earlier line; leave out --use-sentence-keys")
    seen.update(dict.fromkeys(paths[:-1], "group"))
    seen[paths[-1]] = "dataset"


def sentence_key(text: str) -> str:
    """The HDF5 key of a sentence, as the old command chose it."""
    return text.strip()
