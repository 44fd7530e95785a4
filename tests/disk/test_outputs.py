"""Output paths: what may be written, and what the others are told before the work starts."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from elmokit.disk.outputs import check_output, real_path
from elmokit.errors import OutputError


def test_a_new_file(tmp_path: Path) -> None:
    assert check_output(tmp_path / "new.h5") == tmp_path / "new.h5"
    assert check_output(str(tmp_path / "new.h5")) == tmp_path / "new.h5"
    assert not (tmp_path / "new.h5").exists()  # nothing is opened


def test_an_existing_file_needs_permission(tmp_path: Path) -> None:
    (tmp_path / "old.h5").write_text("precious")
    with pytest.raises(OutputError, match=r"old\.h5: exists already; use overwrite"):
        check_output(tmp_path / "old.h5")
    assert check_output(tmp_path / "old.h5", overwrite=True) == tmp_path / "old.h5"
    assert (tmp_path / "old.h5").read_text() == "precious"


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    assert check_output(tmp_path / "link") == tmp_path / "link"  # its target is new
    assert real_path(tmp_path / "link") == Path(os.path.realpath(tmp_path)) / "target"
    (tmp_path / "target").write_text("precious")
    with pytest.raises(OutputError, match="exists already"):
        check_output(tmp_path / "link")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OutputError, match="circle: "):
        check_output(tmp_path / "circle")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"expected the name of a file to write, found ''"),
        ("folder", "expected the name of a file, found a folder"),
        ("missing/file", r"expected a file in a folder that exists, found no .*missing; create it"),
        ("pipe", "expected the name of a file, found a device, pipe or socket"),
        ("socket", "expected the name of a file, found a device, pipe or socket"),
        ("x" * 1000, "cannot be written: File name too long"),
        ("/dev/null", "found a device"),
        ("/dev/stdout", "found a stream; vectors and results cannot be piped"),
        ("/dev/fd/1", "found a stream"),
        ("/proc/self/fd/1", "found a stream"),
        ("nul\0", "cannot be a file"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="needs pipes with names")
def test_paths_that_are_no_files(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # so that the name of the socket is short enough
    Path("folder").mkdir()
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(OutputError, match=message):
            check_output(name, overwrite=True)
