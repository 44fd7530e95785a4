"""The files of the explorer page, and a static folder with a model inside."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from elmokit.disk.whole import new_folder
from elmokit.errors import OutputError
from elmokit.weights import Model, native
from elmokit.weights.files import card_field

PAGE = Path(__file__).parent / "page"
MODEL = "model"  # the folder beside the page
MANIFEST = "manifest.json"  # what the page reads first: the model's name, facts and files with their sizes


def export_web(model: Model, folder: str | os.PathLike[str]) -> Path:
    """Write the explorer page with a model inside: a folder for any static host. It must not exist yet.

    Files of a native model are copied unchanged, also in half precision; a model of another format is converted.
    """
    target = Path(os.path.expanduser(folder))
    if target.parent.exists() and not target.parent.is_dir():
        raise OutputError(f"{target}: cannot be written: {target.parent} is not a folder")
    if target.exists():
        raise OutputError(f"{target}: exists already; choose another name, or remove it first")
    with new_folder(target) as fresh:
        shutil.copytree(PAGE, fresh, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        index = fresh / "index.html"
        page = index.read_text(encoding="utf-8")
        index.write_text(_for_the_browser(page), encoding="utf-8", newline="\n")
        if model.format == native.FORMAT:
            (fresh / MODEL).mkdir()
            for file in model.files:
                shutil.copyfile(file, fresh / MODEL / file.name)
        else:
            native.save(model, fresh / MODEL)
        (fresh / MODEL / MANIFEST).write_text(json.dumps(manifest(model, fresh / MODEL), indent=1) + "\n")
    return target


def manifest(model: Model, folder: Path) -> dict[str, Any]:
    """Facts that the browser needs before it reads the files of a model folder."""
    return {
        "name": model.short_name,
        "language": language(model.card),
        "parameters": model.parameter_count,
        "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()},
    }


def language(card: str | None) -> str | None:
    """The language that the front matter of a model card names."""
    found = re.match(r"[\w-]+", card_field(card, "language") or "")
    return found[0] if found else None


def _for_the_browser(page: str) -> str:
    """The page with the browser back end."""
    asking, alone = ('<meta name="elmo-backend" content="auto">', '<meta name="elmo-backend" content="browser">')
    if asking not in page:
        raise OutputError("index.html: expected the setting elmo-backend; reinstall elmokit")
    return page.replace(asking, alone)
