"""Reader of WordNet's sense inventory, from its database files."""

from __future__ import annotations

import os
import tarfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from elmokit.disk.json_file import read_bytes
from elmokit.disk.limits import exceeded, limits
from elmokit.disk.unpack import DAMAGED, compression, decompressed
from elmokit.errors import FormatError, InputError

DEBIAN = Path("/usr/share/wordnet")  # install location of the packages wordnet-base and wordnet-sense-index

_POS = {
    "1": "NOUN",
    "2": "VERB",
    "3": "ADJ",
    "4": "ADV",
    "5": "ADJ",
}  # by the number in a sense key; 5 is an adjective satellite
_TYPES = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}  # the same by their letters in data files
_PARTS = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}  # of file names
_INDEX = "index.sense"
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_LONGEST_HEADER = 2**20  # bytes of a long name, or of pax attributes
_DATABASE = tuple(f"{kind}.{part}" for part in _PARTS.values() for kind in ("index", "data"))

Senses = dict[tuple[str, str], list[str]]  # keys by lemma, as "take_place", and NOUN, VERB, ADJ or ADV


@dataclass(frozen=True)
class WordNet:
    """Sense keys of every lemma and part of speech, in WordNet's order: the most frequent sense first."""

    senses: Senses
    files: tuple[Path, ...]  # files read

    def first(self, lemma: str, pos: str) -> str | None:
        """The first sense, or None if the lemma is not in WordNet."""
        keys = self.senses.get((lemma, pos))
        return keys[0] if keys else None


def read_wordnet(place: str | os.PathLike[str] | None = None) -> WordNet:
    """Read WordNet from a folder with its database files, a `dict` folder or a tar file, or from a tar file.

    The default is Debian's location. `index.sense` is sufficient; without it, as in Debian's package wordnet-base, the
    keys are built from `index.noun`, `data.noun` and so on.
    """
    fix = f"name a folder or tar file with {_INDEX} by --wordnet, or install Debian's package wordnet-base"
    path = DEBIAN if place is None else Path(place)
    if not path.exists():
        raise InputError(f"{path}: expected WordNet, found nothing there; {fix}")
    for candidate in [path, path / "dict", *sorted(path.glob("*.tar*"))] if path.is_dir() else [path]:
        files = _folder(candidate) if candidate.is_dir() else _tar(candidate) if candidate.is_file() else {}
        for names, read in (((_INDEX,), _from_index), (_DATABASE, _from_database)):
            if all(name in files for name in names):
                try:
                    senses = read({name: _content(files[name]) for name in names})
                except (ValueError, IndexError, KeyError, StopIteration):
                    raise InputError(
                        f"{candidate}: {', '.join(names)} are damaged, or not WordNet files; {fix}"
                    ) from None
                paths = [candidate / name for name in names] if candidate.is_dir() else [candidate]
                return WordNet(senses, tuple(paths))
    raise InputError(f"{path}: expected {_INDEX}, or all of {', '.join(_DATABASE)}, found neither; {fix}")


def _folder(path: Path) -> dict[str, Path | bytes]:
    return {name: path / name for name in (_INDEX, *_DATABASE) if (path / name).is_file()}


def _tar(path: Path) -> dict[str, Path | bytes]:
    """Read the relevant files from anywhere in the archive, without extracting to disk.

    The archive is read once, front to back, through a decompressor that checks the compression ratio: tarfile reads
    whole headers into memory, which may claim any size.
    """
    files: dict[str, Path | bytes] = {}
    try:
        with (
            path.open("rb") as packed,
            decompressed(packed, compression(packed), str(path)) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Member) as archive,
        ):
            for member in archive:
                name = Path(member.name).name
                _check_size(member, f"{path}/{name}")  # a header may have changed the size
                if name in (_INDEX, *_DATABASE) and member.isreg() and (file := archive.extractfile(member)):
                    files[name] = file.read()
    except (tarfile.TarError, *DAMAGED, OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise InputError(f"{path}: expected a folder or a complete tar file ({error})") from None
    return files


class _Member(tarfile.TarInfo):
    """Entry of a tar file whose size is checked before its content is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header block."""
        member = super().frombuf(buf, encoding, errors)
        _check_size(member, "tar file")
        return member


def _check_size(member: tarfile.TarInfo, label: str) -> None:
    is_header = member.type in _HEADERS
    most = _LONGEST_HEADER if is_header else limits().text
    if member.size > most:
        what = " of a header" if is_header else ""
        raise exceeded(label, f"expected at most {most:,} bytes{what}, found {member.size:,}")


def _content(file: Path | bytes) -> bytes:
    return file if isinstance(file, bytes) else read_bytes(file)


def _from_index(files: Mapping[str, bytes]) -> Senses:
    """Parse `index.sense`: sense key, offset, sense number and frequency per line."""
    numbered: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for line in files[_INDEX].decode("utf-8").splitlines():
        key, _, number, _ = line.split()
        lemma, _, rest = key.rpartition("%")
        numbered[lemma, _POS[rest[0]]].append((int(number), key))
    if not numbered:
        raise ValueError("expected senses, found none")
    return {name: [key for _, key in sorted(keys)] for name, keys in numbered.items()}


def _from_database(files: Mapping[str, bytes]) -> Senses:
    """Build sense keys from index files, which list the synset offsets of a lemma in sense order."""
    senses: Senses = {}
    for pos, part in _PARTS.items():
        data = files[f"data.{part}"]
        for line in files[f"index.{part}"].decode("utf-8").splitlines():
            if line.startswith(" "):  # license header
                continue
            fields = line.split()
            lemma, n_synsets = fields[0], int(fields[2])
            senses[lemma, pos] = [_key(data, int(at), lemma) for at in fields[-n_synsets:]]
    return senses


def _key(data: bytes, at: int, lemma: str) -> str:
    """Sense key of a lemma in a synset: lemma%type:file:id:head:head id; heads are for adjective satellites."""
    file, kind, words, head_at = _synset(data, at)
    head = ":"
    if kind == "s":
        word, number = _synset(data, head_at)[2][0]
        head = f"{word}:{number:02d}"
    number = next(number for word, number in words if word == lemma)  # a synset may have Moon and moon: the first one
    return f"{lemma}%{_TYPES[kind]}:{file}:{number:02d}:{head}"


def _synset(data: bytes, at: int) -> tuple[str, str, list[tuple[str, int]], int]:
    """Lexicographer file, type, words with ids, and offset of the synset it is similar to."""
    offset, file, kind, count, *fields = data[at : data.index(b"\n", at)].decode("utf-8").split()
    if offset != f"{at:08d}":
        raise ValueError(f"expected a synset at {at}")
    n = int(count, 16)
    words = [
        (word.partition("(")[0].lower(), int(number, 16))  # without the adjective position marker
        for word, number in zip(fields[: 2 * n : 2], fields[1 : 2 * n : 2], strict=True)
    ]
    head = int(fields[fields.index("&", 2 * n) + 1]) if kind == "s" else 0
    return file, kind, words, head
