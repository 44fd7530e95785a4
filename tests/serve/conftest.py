"""A real browser, and the exported page behind a plain static server."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elmokit import weights
from elmokit.serve.pages import export_web

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """A browser on the path; on Debian it is installed where we may."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        command = "apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium"
        subprocess.run(["sh", "-c", command], capture_output=True, timeout=300, check=False)
        found = shutil.which("chromium")
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium, driven by Playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'elmokit[test]'")
    path = find_chromium()
    if path is None:
        pytest.skip("needs Chromium, and it could not be installed: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is served; the exported page is in `site/`."""
    folder = tmp_path_factory.mktemp("served")
    export_web(weights.load(), folder / "site")
    return folder


@pytest.fixture(scope="session")
def address(root: Path) -> Iterator[str]:
    """Where the page is."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(root)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/site/"
    server.shutdown()
    server.server_close()
    thread.join()


class Watched:
    """A page with everything that it should not do: errors on the console, and requests to other hosts."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.faults = page, []
        origin = address.split("/site/")[0]
        page.on("console", lambda m: self.faults.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on(
            "request", lambda r: None if r.url.startswith((origin, "data:", "blob:")) else self.faults.append(r.url)
        )

    def ready(self) -> Any:
        self.page.wait_for_selector("#compare figure", timeout=60_000)
        return self.page


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Any]:
    """A function that opens the page: size "desktop" or "phone", scheme "light" or "dark"."""
    contexts = []

    def open_page(size: str = "desktop", scheme: str = "light", suffix: str = "", before: Any = None) -> Watched:
        viewport = {"width": 1200, "height": 850} if size == "desktop" else {"width": 390, "height": 800}
        context = browser.new_context(viewport=viewport, color_scheme=scheme, accept_downloads=True)
        contexts.append(context)
        found = Watched(context.new_page(), address)
        if before:
            before(found.page)
        found.page.goto(address + suffix)
        return found

    yield open_page
    for context in contexts:
        context.close()
