"""Sense-annotated corpora in the unified format of Raganato et al. (2017): an XML file and a gold key file.

The XML is parsed as a stream. Document type declarations are rejected: the format has none, and they enable entity
expansion attacks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from xml.parsers import expat

from elmokit.errors import InputError
from elmokit.text.lines import COMPRESSED_SUFFIXES, LineReader

POS = ("NOUN", "VERB", "ADJ", "ADV")

DATA_SUFFIX, KEY_SUFFIX = ".data.xml", ".gold.key.txt"


@dataclass(frozen=True, slots=True)
class Instance:
    """A sense-annotated word or multi-word expression."""

    id: str
    lemma: str
    pos: str  # one of POS
    first: int  # first token, counted through the whole corpus
    end: int  # exclusive
    keys: tuple[str, ...]  # WordNet sense keys, any of which is correct


@dataclass(frozen=True)
class SenseCorpus:
    """A sense-annotated data set."""

    name: str
    sentences: list[list[str]]
    instances: list[Instance]
    files: tuple[Path, Path]  # XML and keys


def read_corpus(xml: str | os.PathLike[str], keys: str | os.PathLike[str] | None = None) -> SenseCorpus:
    """Read a data set, plain or compressed; the default key file has the same name in the same folder.

    The text of a word is split at whitespace: "took place" is two tokens.
    """
    path = Path(xml)
    key_path = _key_file(path) if keys is None else Path(keys)
    gold = read_keys(key_path)
    parser = _Parser(path, gold, key_path)
    with LineReader(path) as lines:
        for line in lines:
            parser.feed(f"{line}\n")
    return SenseCorpus(_name(path), *parser.close(), (path, key_path))


def find_corpora(places: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Find the XML files of files and folders; in a folder, ALL (the union of the others) is skipped."""
    found: list[Path] = []
    for place in map(Path, places):
        if not place.is_dir():
            found.append(place)
            continue
        names = [f"*{DATA_SUFFIX}{suffix}" for suffix in ("", *COMPRESSED_SUFFIXES)]
        inside = sorted(path for name in names for path in place.rglob(name))
        if not inside:
            raise InputError(f"{place}: expected files *{DATA_SUFFIX}, also compressed, found none in this folder")
        found += [path for path in inside if _name(path) != "ALL"] or inside
    names = [_name(path) for path in found]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"--eval: expected every data set once, found {', '.join(doubles)} more than once")
    if "ALL" in names and len(names) > 1:
        raise InputError("--eval: ALL is the union of the other data sets; give either it or the others")
    return found


def read_keys(path: Path) -> dict[str, tuple[str, ...]]:
    """Read sense keys by instance id: lines of an id and one or more keys, separated by spaces."""
    keys: dict[str, tuple[str, ...]] = {}
    with LineReader(path) as lines:
        for line in lines:
            if not line.strip():
                continue
            name, *senses = line.split()
            place = f"{path}: line {lines.line_number}"
            if not senses or not all("%" in sense for sense in senses):
                raise InputError(f"{place}: expected an id and sense keys, as d0.s0.t0 art%1:09:00::, found {line!r}")
            if name in keys:
                raise InputError(f"{place}: expected every instance once, found {name} again")
            keys[name] = tuple(map(intern, senses))
    return keys


class _Parser:
    """SAX-style handlers that collect sentences and instances."""

    def __init__(self, path: Path, gold: Mapping[str, tuple[str, ...]], key_path: Path) -> None:
        self._path, self._gold, self._key_path = path, gold, key_path
        self._sentences: list[list[str]] = []
        self._instances: list[Instance] = []
        self._ids: set[str] = set()
        self._sentence: list[str] | None = None  # the open sentence
        self._word: dict[str, str] | None = None  # attributes of the open word
        self._text: list[str] = []  # text of that word, in pieces
        self._n_tokens = 0
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartDoctypeDeclHandler = self._refuse
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._characters

    def feed(self, text: str, *, last: bool = False) -> None:
        try:
            self._expat.Parse(text, last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise InputError(
                f"{self._place}: expected well-formed XML, found {reason}; is the file complete?"
            ) from None

    def close(self) -> tuple[list[list[str]], list[Instance]]:
        self.feed("", last=True)
        if not self._instances:
            raise InputError(f"{self._path}: expected sentences with <instance> elements, found none")
        if unused := [name for name in self._gold if name not in self._ids]:
            raise InputError(
                f"{self._key_path}: {len(unused):,} of {len(self._gold):,} keys are of instances that {self._path} does"
                f" not have, such as {unused[0]}; do both belong to one data set, and are they complete?"
            )
        return self._sentences, self._instances

    @property
    def _place(self) -> str:
        return f"{self._path}: line {self._expat.CurrentLineNumber}"

    def _refuse(self, *_: object) -> None:
        raise InputError(f"{self._place}: a document type declaration (<!DOCTYPE ...>) is not allowed; remove it")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sentence":
            if self._sentence is not None:
                raise InputError(f"{self._place}: expected the end of the sentence before, found <sentence> in it")
            self._sentence = []
        elif name in ("wf", "instance"):
            if self._sentence is None or self._word is not None:
                found = "it outside" if self._sentence is None else "it in another word"
                raise InputError(f"{self._place}: expected <{name}> in a <sentence>, found {found}")
            self._word, self._text = attributes, []

    def _characters(self, text: str) -> None:
        if self._word is not None:
            self._text.append(text)

    def _end(self, name: str) -> None:
        if name == "sentence" and self._sentence is not None:
            self._sentences.append(self._sentence)
            self._sentence = None
        elif name in ("wf", "instance") and self._sentence is not None and self._word is not None:
            tokens = list(map(intern, "".join(self._text).split()))
            if name == "instance":
                self._instances.append(self._instance(self._word, len(tokens)))
            self._sentence += tokens
            self._n_tokens += len(tokens)
            self._word = None

    def _instance(self, attributes: dict[str, str], n_tokens: int) -> Instance:
        missing = [name for name in ("id", "lemma", "pos") if name not in attributes]
        if missing:
            raise InputError(f"{self._place}: expected an instance with {' and '.join(missing)}, found {attributes}")
        name, pos = attributes["id"], attributes["pos"]
        if pos not in POS:
            raise InputError(f"{self._place}: expected pos {', '.join(POS)}, found {pos!r} at instance {name}")
        if not n_tokens:
            raise InputError(f"{self._place}: expected an instance with text, found none at {name}")
        if name in self._ids:
            raise InputError(f"{self._place}: expected every instance once, found {name} again")
        if name not in self._gold:
            raise InputError(
                f"{self._place}: instance {name} has no key in {self._key_path}; do both belong to one data set?"
            )
        self._ids.add(name)
        end = self._n_tokens + n_tokens
        return Instance(name, intern(attributes["lemma"].lower()), intern(pos), self._n_tokens, end, self._gold[name])


def _name(path: Path) -> str:
    """Name of the data set, such as "semcor" for semcor.data.xml.xz."""
    stem = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSED_SUFFIXES else path.name
    return stem.removesuffix(DATA_SUFFIX).removesuffix(".xml")


def _key_file(path: Path) -> Path:
    wanted = path.with_name(_name(path) + KEY_SUFFIX)
    for suffix in ("", *COMPRESSED_SUFFIXES):
        if (candidate := wanted.with_name(wanted.name + suffix)).is_file():
            return candidate
    if not path.exists():
        raise InputError(f"{path}: expected a file of sense-annotated text, found nothing there")
    raise InputError(
        f"{path}: expected its keys in {wanted.name} in the same folder, found no such file; or name the key file"
    )
