"""Files are renamed by `disk` alone, which syncs them first: otherwise a power failure may leave half a file."""

from __future__ import annotations

import ast
from pathlib import Path

import elmokit

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


def test_only_disk_renames_files() -> None:
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
