"""Renames without replacement and exchanges, natively and in the portable way; only `disk` renames files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import elmokit
from elmokit.disk import rename
from elmokit.disk.rename import exchange, rename_new

ROOT = Path(elmokit.__file__).parent
MODULE_CALLS = {("os", "replace"), ("os", "rename"), ("os", "renames"), ("shutil", "move")}


def renames(tree: ast.AST) -> list[int]:
    """Lines with a rename of a file: `os.replace` and the like, or `path.replace(target)`, which has one argument."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any((node.module, name.name) in MODULE_CALLS for name in node.names):
            found.append(node.lineno)
        if isinstance(node, ast.Attribute) and (getattr(node.value, "id", None), node.attr) in MODULE_CALLS:
            found.append(node.lineno)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_method = node.func.attr in ("replace", "rename") and len(node.args) == 1 and not node.keywords
            if is_method and not isinstance(node.args[0], ast.Starred):
                found.append(node.lineno)
    return sorted(set(found))


@pytest.fixture(params=["native", "portable"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With renameat2 of Linux, or with calls that every system has."""
    if request.param == "portable":
        monkeypatch.setattr(rename, "_renameat2", lambda: None)
    elif rename._renameat2() is None:
        pytest.skip("needs renameat2")
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_a_new_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    rename_new(tmp_path / "file", tmp_path / "other")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_text("inner")
    rename_new(tmp_path / "folder", tmp_path / "elsewhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "other"]
    assert (tmp_path / "other").read_text() == "content" and (tmp_path / "elsewhere" / "inner").read_text() == "inner"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("source", ["file", "folder"])
@pytest.mark.parametrize("target", ["file", "empty folder", "dangling link"])
def test_a_taken_name_stays_as_it_is(tmp_path: Path, source: str, target: str) -> None:
    fresh, taken = tmp_path / "fresh", tmp_path / "taken"
    fresh.mkdir() if source == "folder" else fresh.write_text("new")
    if target == "file":
        taken.write_text("old")
    elif target == "empty folder":
        taken.mkdir()
    else:
        taken.symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        rename_new(fresh, taken)
    assert fresh.exists()
    assert taken.is_symlink() if target == "dangling link" else taken.is_dir() or taken.read_text() == "old"


def test_a_link_is_renamed_and_not_its_target(tmp_path: Path, way: str) -> None:
    (tmp_path / "target").write_text("content")
    (tmp_path / "link").symlink_to("target")
    rename_new(tmp_path / "link", tmp_path / "renamed")
    assert (tmp_path / "renamed").is_symlink() and (tmp_path / "target").read_text() == "content", way


def test_exchange(tmp_path: Path, way: str) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    assert exchange(tmp_path / "a", tmp_path / "b") is (way == "native")
    content = [(tmp_path / name).read_text() for name in "ab"]
    assert content == (["b", "a"] if way == "native" else ["a", "b"])


def test_a_missing_source_is_the_error_of_the_system(tmp_path: Path, way: str) -> None:
    with pytest.raises(FileNotFoundError):
        rename_new(tmp_path / "nothing", tmp_path / "target")
    if way == "native":
        with pytest.raises(FileNotFoundError):
            exchange(tmp_path / "nothing", tmp_path / "nothing either")


def test_only_disk_renames_files() -> None:
    """It syncs them first: otherwise a power failure may leave half a file."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name, lines = path.relative_to(ROOT).as_posix(), renames(ast.parse(path.read_text(encoding="utf-8")))
        if lines and not name.startswith("disk/"):
            found[name] = lines
    assert not found, f"use disk.whole.new_file, new_folder, new_shared_file or put_in_place: {found}"


def test_renames_are_found() -> None:
    code = """
import os, shutil
from os import replace
os.replace(a, b)
os.rename(a, b)
shutil.move(a, b)
path.replace(target)
(folder / "x").rename(target)
text.replace("a", "b")
dataclasses.replace(value, field=1)
parameter.replace(kind=1)
"""
    assert renames(ast.parse(code)) == [3, 4, 5, 6, 7, 8]
