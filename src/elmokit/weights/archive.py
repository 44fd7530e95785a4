"""Zips, as the NLPL repository ships its models: members are read in place, with bounds."""

from __future__ import annotations

import lzma
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from elmokit.errors import FormatError
from elmokit.weights.files import Member, single

MAX_MEMBER = 8 * 1024**3  # bytes; the largest published file, a softmax over 793,471 words, has 1.6 GB
MAX_RATIO = 200  # weights are noise and hardly compress; a member of this much air is a bomb
SMALL = 64 * 1024**2  # bytes below which a ratio does not matter
CHUNK = 1024**2


def members(path: Path) -> dict[str, Member]:
    """The files of a zip by name, from its root or from the one folder that holds them."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if _is_plain(info)]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise FormatError(
            f"{path}: expected a zip, found {single(path).kind()}, truncated or damaged ({error})"
        ) from None
    found: dict[str, Member] = {}
    for info in infos:
        name = PurePosixPath(info.filename).name
        if name in found:
            raise FormatError(f"{path}: expected the files of one model, found {name} more than once; unpack it first")
        found[name] = _member(path, info)
    return found


def is_torch(path: Path) -> bool:
    """True of the zips that `torch.save` writes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(PurePosixPath(name).name == "data.pkl" for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def _is_plain(info: zipfile.ZipInfo) -> bool:
    """A file with a name that stays inside; others are passed over, as nothing here needs them."""
    name = PurePosixPath(info.filename)
    outside = name.is_absolute() or ".." in name.parts or "\\" in info.filename or ":" in info.filename
    junk = "__MACOSX" in name.parts or name.name.startswith(".")
    return not (info.is_dir() or outside or junk or stat.S_ISLNK(info.external_attr >> 16))


def _member(path: Path, info: zipfile.ZipInfo) -> Member:
    name = PurePosixPath(info.filename).name
    label = f"{path}/{name}"

    def unpack() -> BinaryIO:
        """Into a nameless temporary file: HDF5 seeks, and memory is for the network."""
        if info.file_size > MAX_MEMBER or info.file_size > max(SMALL, MAX_RATIO * info.compress_size):
            raise FormatError(f"{label}: refused, as {info.compress_size} bytes claim to unpack to {info.file_size}")
        target = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        try:
            with zipfile.ZipFile(path) as archive, archive.open(info) as source:
                _copy(source, target, info.file_size, label)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError) as error:
            target.close()  # OSError: damaged bzip2, or no room; RuntimeError: encrypted, or packed in an unknown way
            raise FormatError(f"{label}: cannot be unpacked into {tempfile.gettempdir()}: {error}") from None
        except BaseException:
            target.close()
            raise
        target.seek(0)
        return cast(BinaryIO, target)

    return Member(name, path, unpack)


def _copy(source: IO[bytes], target: IO[bytes], size: int, label: str) -> None:
    """Exactly `size` bytes, or an error as soon as it is clear that there are more or fewer."""
    left = size
    while chunk := source.read(CHUNK):
        left -= len(chunk)
        if left < 0:
            raise FormatError(f"{label}: expected {size} bytes, found more; refused")
        target.write(chunk)
    if left:
        raise FormatError(f"{label}: expected {size} bytes, found {size - left}")
