"""Files and folders that are there in full or not at all: killed, on a full disk, and when something is in the way."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from full_disk import file_size_limit
from killed import killed_before

from elmokit.disk import rename, whole
from elmokit.disk.manifest import Manifest
from elmokit.disk.scratch import is_scratch, remove_leftovers, scratch
from elmokit.disk.whole import new_file, new_folder, new_shared_file
from elmokit.errors import OutputError

THINGS = Manifest("a folder of things", marks=("mark",), parts=("thing-*", "inner/thing-*"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_file(path: Path) -> None:
    with new_file(path) as fresh:
        fresh.write_text("new")


def write_folder(path: Path, *, overwrite: bool = False) -> None:
    with new_folder(path, replaces=THINGS, overwrite=overwrite) as fresh:
        (fresh / "mark").write_text("new")
        (fresh / "thing-1").write_text("new")


@pytest.mark.parametrize("old", [None, "old"])
def test_a_file_survives_kills_before_every_operation(tmp_path: Path, old: str | None) -> None:
    target = tmp_path / "file.txt"
    kills = 0
    while True:
        if old is None:
            target.unlink(missing_ok=True)
        else:
            target.write_text(old)
        if not killed_before(kills, lambda: write_file(target)):
            break
        assert (target.read_text() if target.exists() else None) in (old, "new")
        write_file(target)
        assert names(tmp_path) == ["file.txt"] and target.read_text() == "new"
        kills += 1
    assert kills >= 4


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_survives_kills_before_every_operation(
    tmp_path: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr(rename, "_renameat2", lambda: None)
    target, kills = tmp_path / "folder", 0
    while True:
        if target.exists():
            THINGS.remove(target)
        target.mkdir(exist_ok=True)
        (target / "mark").write_text("old")
        (target / "thing-old").write_text("old")
        if not killed_before(kills, lambda: write_folder(target, overwrite=True)):
            break
        remove_leftovers(tmp_path)  # gives an old folder its name back if there is no new one
        content = (target / "mark").read_text()
        assert names(target) == (["mark", "thing-old"] if content == "old" else ["mark", "thing-1"])
        assert names(tmp_path) == ["folder"]
        kills += 1
    assert kills >= 6


def test_a_new_folder_survives_kills(tmp_path: Path) -> None:
    kills = 0
    while killed_before(kills, lambda: write_folder(tmp_path / "folder")):
        if (tmp_path / "folder").exists():
            assert names(tmp_path / "folder") == ["mark", "thing-1"]
        else:
            write_folder(tmp_path / "folder")
        remove_leftovers(tmp_path)
        assert names(tmp_path) == ["folder"]
        THINGS.remove(tmp_path / "folder")
        (tmp_path / "folder").rmdir()
        kills += 1
    assert kills >= 4


def test_the_work_of_a_living_process_is_never_removed(tmp_path: Path) -> None:
    with scratch(tmp_path / "file") as mine:
        (mine / "half").write_text("half of it")
        write_file(tmp_path / "file")
        remove_leftovers(tmp_path)
        assert (mine / "half").read_text() == "half of it"
    assert names(tmp_path) == ["file"]


def test_only_folders_of_the_right_name_are_taken_for_leftovers(tmp_path: Path) -> None:
    for name in (".file.elmokit-0123456z", "file.elmokit-01234567", ".file.elmokit-012345678"):
        (tmp_path / name).mkdir()
    (tmp_path / ".file.elmokit-01234567").write_text("a file")
    (tmp_path / ".link.elmokit-01234567").symlink_to(tmp_path)
    before = names(tmp_path)
    remove_leftovers(tmp_path)
    write_file(tmp_path / "file")
    assert names(tmp_path) == sorted([*before, "file"])
    assert not is_scratch(tmp_path / ".link.elmokit-01234567")


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("kind", ["file", "empty folder", "full folder", "dangling link"])
def test_what_appears_meanwhile_is_kept(
    tmp_path: Path, kind: str, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(rename, "_renameat2", lambda: None)
    target = tmp_path / "out"
    with (
        pytest.raises(OutputError, match="was created by another process in the meantime, and is kept"),
        new_folder(target) as fresh,
    ):
        (fresh / "mark").write_text("new")
        if kind == "file":
            target.write_text("precious")
        elif kind == "dangling link":
            target.symlink_to("nowhere")
        else:
            target.mkdir()
            if kind == "full folder":
                (target / "thesis.txt").write_text("precious")
    assert names(tmp_path) == ["out"]
    assert not (target / "mark").exists()
    with (
        pytest.raises(OutputError, match="was created by another process in the meantime"),
        new_file(tmp_path / "two", replace=False) as fresh,
    ):
        fresh.write_text("new")
        (tmp_path / "two").write_text("precious")
    assert (tmp_path / "two").read_text() == "precious"


def test_a_foreign_file_that_comes_in_at_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "folder"
    write_folder(target)
    exchange = whole.exchange

    def late(new: Path, old: Path) -> bool:
        if not (old / "thesis.txt").exists() and not (new / "thesis.txt").exists():
            (old / "thesis.txt").write_text("precious")
        return exchange(new, old)

    monkeypatch.setattr(whole, "exchange", late)
    with pytest.raises(OutputError, match=r"thesis\.txt has appeared in it"):
        write_folder(target, overwrite=True)
    assert (target / "thesis.txt").read_text() == "precious"


def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with (
        file_size_limit(100),
        pytest.raises(OutputError, match=r"file: cannot be written: File too large; make room"),
        new_file(tmp_path / "file", advice="; make room") as fresh,
    ):
        fresh.write_bytes(bytes(1000))
    assert (tmp_path / "file").read_text() == "old" and names(tmp_path) == ["file"]
    with (
        file_size_limit(100),
        pytest.raises(OutputError, match="folder: cannot be written: File too large"),
        new_folder(tmp_path / "folder") as fresh,
    ):
        (fresh / "mark").write_bytes(bytes(1000))
    assert names(tmp_path) == ["file"]


def test_many_writers_of_one_file(tmp_path: Path) -> None:
    """Eight threads write the same file a hundred times: it is always one of theirs, and nothing is left."""
    target = tmp_path / "file"
    target.write_text("0" * 1000)
    faults: list[str] = []

    def write(number: int) -> None:
        for _ in range(25):
            with new_file(target) as fresh:
                fresh.write_text(str(number) * 1000)
            if len(set(content := target.read_text())) != 1 or len(content) != 1000:
                faults.append(content[:50])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and names(tmp_path) == ["file"]


def test_subfolders_are_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def sync(path: Path) -> None:
        assert path == tmp_path or not (tmp_path / "folder").exists()  # the last one is for the rename itself
        synced.append(path.name)

    monkeypatch.setattr(whole, "sync", sync)
    with new_folder(tmp_path / "folder") as fresh:
        (fresh / "inner" / "deep").mkdir(parents=True)
        for place in (fresh, fresh / "inner", fresh / "inner" / "deep"):
            (place / f"in-{place.name}").touch()
    assert sorted(synced) == sorted(["in-new", "inner", "in-inner", "deep", "in-deep", "new", tmp_path.name])
    assert synced.index("in-deep") < synced.index("deep") < synced.index("inner") < synced.index("new")


def test_the_remedy_is_one_that_there_is(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="exists already; use overwrite=True to replace it"):
        write_folder(tmp_path / "folder")
    with pytest.raises(OutputError, match="choose another name, or remove it first"), new_folder(tmp_path / "folder"):
        pass


def test_files_in_a_folder_that_machines_share(tmp_path: Path) -> None:
    """Nobody removes the temporary file of another writer, and a complete one replaces the same file."""
    with new_shared_file(tmp_path / "file") as one, new_shared_file(tmp_path / "file") as other:
        for number, fresh in enumerate((one, other)):
            assert fresh.name.startswith(".file.")
            fresh.write_text(str(number))
        remove_leftovers(tmp_path)
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "0"
    with (
        pytest.raises(OutputError, match=r"file: cannot be written: .*; again"),
        new_shared_file(tmp_path / "file", advice="; again") as fresh,
    ):
        fresh.write_text("half")
        raise OSError("no room")
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "0"


def test_long_names(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 250)
    write_file(target)
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["x" * 250]
