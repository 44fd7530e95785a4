"""Small files that would fill the memory: refused in one line, under a limit on memory."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pytest
from limits import Outcome, limited

from elmokit.analysis.senses.wordnet import read_wordnet
from elmokit.disk import limits as disk_limits
from elmokit.disk.limits import Limits
from elmokit.text.vocabulary import Vocabulary

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")

MEMORY = 300 * 2**20


def check_refused(outcome: Outcome, *parts: str) -> None:
    assert outcome.kind == "refused" and all(part in outcome.value for part in parts), outcome


def block(type: bytes, size: int, name: str = "name") -> bytes:
    """Header block of a tar file that claims any size."""
    info = tarfile.TarInfo(name)
    info.type, info.size = type, size
    return info.tobuf(tarfile.GNU_FORMAT)


def compressed_zeros(head: bytes, size: int) -> bytes:
    """A small .xz file of a header and zeros: one stream after another."""
    return lzma.compress(head) + lzma.compress(bytes(2**24)) * -(-size // 2**24)


@pytest.mark.parametrize("type", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME], ids=str)
def test_a_tar_header_of_700_megabytes(tmp_path: Path, type: bytes) -> None:
    path = tmp_path / "wordnet.tar.xz"
    path.write_bytes(compressed_zeros(block(type, 700 * 2**20), 700 * 2**20))
    assert path.stat().st_size < 200_000
    check_refused(limited(lambda: read_wordnet(path), MEMORY), "expected at most 1,048,576 bytes of a header")


def test_a_packed_tar_of_small_headers_and_a_large_file(tmp_path: Path) -> None:
    """A file of no interest is skipped, but decompressed to get behind it."""
    path = tmp_path / "wordnet.tar.xz"
    size = 250 * 2**20  # below the limit of a file
    path.write_bytes(compressed_zeros(block(tarfile.REGTYPE, size), size))
    check_refused(limited(lambda: read_wordnet(path), MEMORY), "unpack to", "over 200 times as many")


def test_a_size_in_a_pax_header(tmp_path: Path) -> None:
    path, content = tmp_path / "wordnet.tar", io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("index.sense")
        info.pax_headers = {"size": str(2**40)}
        archive.addfile(info)
    path.write_bytes(content.getvalue())
    check_refused(limited(lambda: read_wordnet(path), MEMORY), "expected at most 268,435,456 bytes")


def test_links_in_a_tar_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "wordnet.tar"
    with tarfile.open(path, "w") as archive:
        for type in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            info = tarfile.TarInfo("index.sense")
            info.type, info.linkname = type, "/etc/passwd"
            archive.addfile(info)
    check_refused(limited(lambda: read_wordnet(path), MEMORY), "expected index.sense")


def test_a_vocabulary_of_too_many_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_limits, "_limits", Limits(words=100_000))
    path = tmp_path / "vocabulary.txt"
    path.write_text("\n".join(f"word{number}" for number in range(1_000_000)))
    outcome = limited(lambda: Vocabulary.from_file(path), MEMORY // 4)
    check_refused(outcome, "expected at most 100,000 words, found more")


def test_a_vocabulary_of_few_long_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_limits, "_limits", Limits(text=2**20))
    path = tmp_path / "vocabulary.txt"
    path.write_text(f"{'x' * 2**16}\n" * 100)
    check_refused(limited(lambda: Vocabulary.from_file(path), MEMORY), "expected at most 1,048,576 characters")
