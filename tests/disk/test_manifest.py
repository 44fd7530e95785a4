"""Only what elmokit wrote is removed; anything else is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmokit.disk.manifest import Checked, Manifest
from elmokit.disk.outputs import check_output
from elmokit.errors import OutputError

RUN = Manifest("a run", marks=("checkpoints/step-*",), parts=("metrics.jsonl", "checkpoints/.new-*", "model/weights"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("checkpoints/step-1", "checkpoints/.new-2", "metrics.jsonl", "model/weights", "lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def test_a_run_is_removed(run: Path) -> None:
    RUN.require(run)
    RUN.remove(run)
    assert [path.name for path in run.rglob("*")] == ["lock"]
    assert RUN.is_empty(run)


@pytest.mark.parametrize(
    "name", ["thesis.txt", "checkpoints/thesis.txt", "model/thesis.txt", "other/thesis.txt", "model/weights.old"]
)
def test_foreign_files_are_named(run: Path, name: str) -> None:
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text("precious")
    with pytest.raises(OutputError, match=r"expected a run to overwrite, found also \S+; nothing was removed"):
        RUN.require(run)
    RUN.remove(run)
    assert (run / name).read_text() == "precious"


def test_links_are_not_followed(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "step-1").write_text("precious")
    (run / "model" / "weights").unlink()
    (run / "model" / "weights").symlink_to(other / "step-1")
    (run / "linked").symlink_to(other)
    with pytest.raises(OutputError, match="found also linked;"):
        RUN.require(run)
    RUN.remove(run)
    assert (other / "step-1").read_text() == "precious" and (run / "linked").is_symlink()


def test_a_name_is_not_enough(tmp_path: Path) -> None:
    def is_ours(path: Path) -> bool:
        return path.read_text() == "ours"

    things = Manifest(
        "things",
        marks=(Checked("mark-*", is_ours),),
        parts=("part", Checked("checked", is_ours), Checked("beside", lambda path: is_ours(path.with_name("checked")))),
    )
    (tmp_path / "mark-1").write_text("theirs")
    (tmp_path / "part").write_text("theirs")
    assert not things.is_marked(tmp_path) and things.foreign(tmp_path) == ["mark-1"]
    for name in ("mark-2", "checked", "beside"):
        (tmp_path / name).write_text("ours")
    assert things.is_marked(tmp_path)
    with pytest.raises(OutputError, match=r"expected things to overwrite, found also mark-1; nothing was removed"):
        things.require(tmp_path)
    outer = Manifest("outer", marks=("mark",), parts=things.inside("inner"))
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "mark").touch()
    (tmp_path / "outer" / "inner" / "checked").write_text("theirs")
    assert outer.foreign(tmp_path / "outer") == ["inner/checked"]
    things.remove(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mark-1", "outer"]


def test_an_interrupted_removal_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are recognized by another one are removed before it, and marks last."""
    beside = Checked("a", lambda path: path.with_name("b").exists())
    things = Manifest("things", marks=("aa-mark",), parts=("b", beside))
    for name in ("aa-mark", "a", "b"):
        (tmp_path / name).touch()
    removed: list[str] = []
    unlink = Path.unlink

    def unlink_one(path: Path, missing_ok: bool = False) -> None:
        if removed:
            raise KeyboardInterrupt
        removed.append(path.name)
        unlink(path, missing_ok)

    for name in ("a", "b", "aa-mark"):
        removed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", unlink_one)
            try:
                things.remove(tmp_path)
            except KeyboardInterrupt:
                things.require(tmp_path)
        assert removed == [name]
    assert things.is_empty(tmp_path)


def test_a_folder_without_a_mark_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("somebody's")
    with pytest.raises(OutputError, match=r"found no checkpoints/step-\*"):
        RUN.require(tmp_path)


def test_outputs_are_regular_files(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with pytest.raises(OutputError, match="exists already; use overwrite=True"):
        check_output(tmp_path / "old")
    assert check_output(tmp_path / "old", overwrite=True) == tmp_path / "old"
    for device in ("/dev/full", "/dev/zero", "/dev/null"):
        with pytest.raises(OutputError, match="found a device, pipe or socket"):
            check_output(device, overwrite=True)
    (tmp_path / "link").symlink_to("/dev/full")
    with pytest.raises(OutputError, match="found a device, pipe or socket"):
        check_output(tmp_path / "link", overwrite=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "file")
    with pytest.raises(OutputError, match="expected a file in a folder that exists"):
        check_output(tmp_path / "dangling")
    with pytest.raises(OutputError, match="found a folder"):
        check_output(tmp_path)
    with pytest.raises(OutputError, match="expected the name of a file to write, found ''"):
        check_output("")
    for stream in ("/dev/stdout", "/dev/../dev/stderr", "/dev/fd/1", "/proc/self/fd/1"):
        with pytest.raises(OutputError, match=rf"^{stream}: expected the name of a file, found a stream"):
            check_output(stream, overwrite=True)
    for bad in ("x" * 5000, "a\0b"):
        with pytest.raises(OutputError):
            check_output(tmp_path / bad)
