"""The files of the explorer page, read once: a request names an entry of this table, never a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from elmokit.serve.pages import PAGE
from elmokit.serve.security import PAGE_POLICY

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".tsv": "text/tab-separated-values; charset=utf-8",
}


@dataclass(frozen=True)
class Asset:
    """A file of the page."""

    content: bytes
    media_type: str
    tag: str

    def response(self, request: Request) -> Response:
        """The file, or 304 if the browser has it already."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", "Content-Security-Policy": PAGE_POLICY}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def read_assets(folder: Path = PAGE) -> dict[str, Asset]:
    """All files of the page by their address."""
    assets: dict[str, Asset] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in _TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            assets["/" + path.relative_to(folder).as_posix()] = Asset(content, _TYPES[path.suffix], tag)
    assets["/"] = assets["/index.html"]
    return assets
