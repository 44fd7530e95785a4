"""Lines of files of every kind, and the message for every way in which a file can be bad."""

from __future__ import annotations

import io
import os
import sys
import threading
import tracemalloc
from pathlib import Path

import compressed
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError, MissingExtraError
from elmokit.text.lines import LineReader, read_lines

suffixes = pytest.mark.parametrize("suffix", ["", *compressed.SUFFIXES])
every_compression = pytest.mark.parametrize("suffix", compressed.SUFFIXES)


def write(folder: Path, suffix: str, data: bytes) -> Path:
    """A file of the given bytes, compressed as its suffix says."""
    path = folder / f"text.txt{suffix}"
    path.write_bytes(compressed.compress(data, suffix))
    return path


@suffixes
@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"))),
    ending=st.sampled_from(["\n", "\r\n"]),
)
def test_lines_come_back_whole(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, lines: list[str], ending: str
) -> None:
    path = write(tmp_path_factory.mktemp("lines"), suffix, "".join(line + ending for line in lines).encode())
    assert list(read_lines(path)) == lines


@suffixes
def test_only_newlines_end_a_line(tmp_path: Path, suffix: str) -> None:
    text = "a\u2028b\x0cc\x85d\re\r\n\r\n\nlast\r"
    assert list(read_lines(write(tmp_path, suffix, text.encode()))) == ["a\u2028b\x0cc\x85d\re", "", "", "last\r"]


@suffixes
def test_a_byte_order_mark_is_dropped_at_the_start_only(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix, b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert list(read_lines(path)) == ["a", "\ufeffb"]


@suffixes
def test_an_empty_file_has_no_lines(tmp_path: Path, suffix: str) -> None:
    assert list(read_lines(write(tmp_path, suffix, b""))) == []


@every_compression
def test_several_streams_in_one_file_are_read_through(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(
        b"".join(compressed.compress(part, suffix) for part in (b"one\ntw", b"o\n", b"", b"three\n" * 5000))
    )
    assert list(read_lines(path)) == ["one", "two"] + ["three"] * 5000


@suffixes
def test_invalid_bytes_are_named_or_replaced(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix, b"fine\nab\xff\xc3d\n")
    with pytest.raises(InputError, match=r"text\.txt.*line 2, byte 3 .*0xff.*; convert the file, as with iconv$"):
        list(read_lines(path))
    with pytest.raises(InputError, match=r"as with iconv, or use encoding_errors replace\|ignore"):
        list(read_lines(path, encoding_errors="strict"))
    assert list(read_lines(path, encoding_errors="replace"))[1] == "ab\ufffd\ufffdd"
    assert list(read_lines(path, encoding_errors="ignore"))[1] == "abd"
    with pytest.raises(ConfigError, match="strict, replace, ignore"):
        list(read_lines(path, encoding_errors="loose"))  # type: ignore[arg-type]


@every_compression
def test_a_file_that_was_cut_off_is_an_error(tmp_path: Path, suffix: str) -> None:
    whole = compressed.compress(os.urandom(30_000).hex().encode(), suffix)
    for size in (1, 5, len(whole) // 2, len(whole) - 1):
        path = tmp_path / f"{size}{suffix}"
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=rf"{size}{suffix}.*after line") as caught:
            list(read_lines(path))
        assert "\n" not in str(caught.value)


@every_compression
def test_damaged_data_are_an_error(tmp_path: Path, suffix: str) -> None:
    whole = bytearray(compressed.compress(os.urandom(30_000).hex().encode(), suffix))
    whole[0:4] = b"text"
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(whole)
    with pytest.raises(InputError, match="damaged"):
        list(read_lines(path))


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        list(read_lines(tmp_path / "absent.txt"))
    with pytest.raises(InputError, match="directory"):
        list(read_lines(tmp_path))
    with pytest.raises(InputError, match="null"):
        list(read_lines("a\0b"))


def test_zstd_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, ".zst", b"a\n")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"elmokit\[zstd\]"):
        list(read_lines(path))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO("\ufeffä\nb".encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    with LineReader("-") as reader:
        assert reader.bytes_total is None
        assert list(reader) == ["ä", "b"]
        assert reader.bytes_read == 7
    assert not stdin.buffer.closed


def test_standard_input_is_named_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(InputError, match="standard input: line 1, byte 1"):
        list(read_lines("-"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_has_no_size(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\nb\n",))
    writer.start()
    with LineReader(path) as reader:
        assert list(reader) == ["a", "b"]
        assert reader.bytes_total is None and reader.bytes_read == 4
    writer.join()


@suffixes
def test_progress_counts_the_bytes_on_disk(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix, os.urandom(300_000).hex(sep="\n", bytes_per_sep=20).encode())
    with LineReader(path) as reader:
        assert reader.bytes_total == path.stat().st_size
        seen = [reader.bytes_read for _ in reader]
        assert reader.line_number == len(seen) == 15_000
    assert seen == sorted(seen) and 0 < seen[0] < seen[7000] < seen[-1] <= path.stat().st_size
    assert reader.bytes_read == path.stat().st_size


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])  # .bz2 takes ten seconds to pack
def test_memory_stays_flat(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix, (b"the same words again and again " * 40 + b"\n") * 40_000)
    tracemalloc.start()
    read = sum(1 for _ in read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read == 40_000 and peak < 12_000_000  # of fifty


def test_reading_may_stop_early(tmp_path: Path) -> None:
    lines = read_lines(write(tmp_path, ".gz", b"a\nb\n"))
    assert next(lines) == "a"
    lines.close()  # type: ignore[attr-defined]


def test_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input: expected text, found it closed"):
        next(read_lines("-"))
