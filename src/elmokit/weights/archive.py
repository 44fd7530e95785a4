"""Zip archives, as in the NLPL repository: members are read in place, with limits."""

from __future__ import annotations

import lzma
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from elmokit.disk.limits import check_ratio, exceeded, limits
from elmokit.errors import FormatError
from elmokit.weights.files import Member, single

CHUNK = 1024**2


def members(path: Path) -> dict[str, Member]:
    """Files of a zip by name, whatever their folder."""
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
    """Whether a zip was written by `torch.save`."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(PurePosixPath(name).name == "data.pkl" for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def _is_plain(info: zipfile.ZipInfo) -> bool:
    """Whether a member is a regular file with a safe path; others are skipped."""
    name = PurePosixPath(info.filename)
    outside = name.is_absolute() or ".." in name.parts or "\\" in info.filename or ":" in info.filename
    junk = "__MACOSX" in name.parts or name.name.startswith(".")
    return not (info.is_dir() or outside or junk or stat.S_ISLNK(info.external_attr >> 16))


def _member(path: Path, info: zipfile.ZipInfo) -> Member:
    name = PurePosixPath(info.filename).name
    label = f"{path}/{name}"

    def unpack() -> BinaryIO:
        """Decompress into an anonymous temporary file, because HDF5 needs a seekable one."""
        check_ratio(label, info.compress_size, info.file_size)
        if info.file_size > limits().member:
            raise exceeded(label, f"expected at most {limits().member:,} bytes, found {info.file_size:,}")
        target = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        try:
            with zipfile.ZipFile(path) as archive, archive.open(info) as source:
                _copy(source, target, info.file_size, label)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError) as error:
            target.close()  # OSError: damaged bzip2, or disk full; RuntimeError: encrypted, or unknown method
            raise FormatError(f"{label}: cannot be unpacked into {tempfile.gettempdir()}: {error}") from None
        except BaseException:
            target.close()
            raise
        target.seek(0)
        return cast(BinaryIO, target)

    return Member(name, path, unpack)


def _copy(source: IO[bytes], target: IO[bytes], size: int, label: str) -> None:
    """Copy exactly `size` bytes; raise a FormatError if there are more or fewer."""
    left = size
    while chunk := source.read(CHUNK):
        left -= len(chunk)
        if left < 0:
            raise FormatError(f"{label}: expected {size} bytes, found more; refused")
        target.write(chunk)
    if left:
        raise FormatError(f"{label}: expected {size} bytes, found {size - left}")
