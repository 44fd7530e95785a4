"""MkDocs hook: puts the explorer page with the packaged model into the site, where explorer.md embeds it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

FOLDER = "explorer-page"


def on_post_build(config: Any) -> None:
    """Export the page once the site is written."""
    from elmokit import weights
    from elmokit.serve.pages import export_web

    target = Path(config["site_dir"]) / FOLDER
    shutil.rmtree(target, ignore_errors=True)
    export_web(weights.load(), target)
