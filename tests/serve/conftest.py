"""A real browser, and the exported page behind a plain static server."""

from __future__ import annotations

import csv
import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
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


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Nothing: a browser that closes a connection early would write a traceback into the output of another test."""


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is served; the exported page is in `site/`."""
    folder = tmp_path_factory.mktemp("served")
    export_web(weights.load(), folder / "site")
    return folder


@pytest.fixture(scope="session")
def address(root: Path) -> Iterator[str]:
    """Where the page is."""
    server = _Server(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(root)))
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
    """A function that opens the page: size "desktop" or "phone", scheme "light" or "dark"; at: where, by default the
    exported page.
    """
    contexts = []

    def open_page(
        size: str = "desktop", scheme: str = "light", suffix: str = "", before: Any = None, at: str | None = None
    ) -> Watched:
        viewport = {"width": 1200, "height": 850} if size == "desktop" else {"width": 390, "height": 800}
        context = browser.new_context(viewport=viewport, color_scheme=scheme, accept_downloads=True)
        contexts.append(context)
        found = Watched(context.new_page(), at or address)
        if before:
            before(found.page)
        found.page.goto((at or address) + suffix)
        return found

    yield open_page
    for context in contexts:
        context.close()


def _open_all(page: Any) -> None:
    for section in ("compare", "map", "next", "inside", "tasks", "paper"):
        page.click(f"nav a[href='#{section}']")
        page.wait_for_selector(f"#{section} .content > *", timeout=30_000)
    page.wait_for_selector("#map .bar", timeout=60_000)  # static neighbors come last
    page.wait_for_selector("#next figure:nth-of-type(3)", timeout=30_000)
    page.wait_for_selector("#inside figure:nth-of-type(2)", timeout=30_000)


@pytest.fixture
def open_all() -> Callable[[Any], None]:
    """A function that opens every section of a page and waits for it."""
    return _open_all


def _check_rules(found: Watched) -> None:
    """The accessibility rules of axe-core, the width of the page, and everything that was watched."""
    wrapper = pytest.importorskip("axe_playwright_python", reason="needs axe-core: pip install 'elmokit[test]'")
    page = found.page
    page.evaluate(next(Path(wrapper.__path__[0]).rglob("axe.min.js")).read_text(encoding="utf-8"))
    rules = page.evaluate("axe.run().then(({ passes, violations }) => ({ passes: passes.length, violations }))")
    assert [(one["id"], one["nodes"][0]["html"][:120]) for one in rules["violations"]] == [] and rules["passes"] > 20
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert found.faults == []


@pytest.fixture
def check_rules() -> Callable[[Watched], None]:
    """A function that scans a page as it is shown."""
    return _check_rules


def _click_through(found: Watched, tmp_path: Path) -> None:
    page = found.ready()
    for word in ("play", "bank", "present"):
        page.click(f"#compare .choice button:text-is('{word}')")
        page.wait_for_selector(f"#compare .chip[aria-pressed=true]:text-is('{word}')")
    page.click("#compare .chip >> nth=1")
    page.click("#compare .choice button:text-is('1')")
    _open_all(page)
    for word in ("present", "star"):
        page.click(f"#map .choice button:text-is('{word}')")
        page.wait_for_selector(f"text=Occurrences of “{word}”", timeout=60_000)
    for button in page.locator("#map .choice button:not(:text-matches('^[a-z]{3,7}$'))").all():
        button.click()
    page.fill("#map-own", "A star fell from the sky.")
    page.wait_for_selector("text=37 occurrences", timeout=30_000)
    page.fill("#map-word", "nosuchword")
    page.wait_for_selector("text=a map needs three occurrences")
    page.fill("#map-word", "star")
    page.fill("#next-text", "He opened the")
    page.wait_for_selector("text=After the text")
    page.click("#next .pickable >> nth=0")
    page.wait_for_function("document.querySelector('#next-text').value.split(' ').length === 4")
    page.wait_for_selector("#next .content:not(.busy)")
    page.focus("#next .pickable >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#next-text').value.split(' ').length === 5")
    page.click("#inside .chip:text-is('beautifuly')")
    page.wait_for_selector("text=What stands out in “beautifuly”")
    for button in page.locator("#paper .choice button").all():
        button.click()
        assert page.locator("#paper figure").count() >= 1
    for place in page.locator("figure").all():
        for kind in ("PNG", "SVG", "JSON", "CSV"):
            with page.expect_download() as download:
                place.locator(f".exports button:text-is('{kind}')").click()
            page.wait_for_timeout(110)  # Chromium drops downloads beyond ten per second
            file = tmp_path / "export"
            download.value.save_as(file)
            content = file.read_bytes()
            if kind == "PNG":
                assert content.startswith(b"\x89PNG") and len(content) > 1000
            elif kind == "SVG":
                assert content.startswith(b"<svg") and b"var(--" not in content
            elif kind == "JSON":
                assert json.loads(content)
            else:
                assert len(list(csv.reader(content.decode().splitlines()))) > 1
    _check_rules(found)


@pytest.fixture
def clicked_through(tmp_path: Path) -> Callable[[Watched], None]:
    """A function that clicks on everything that can be clicked, takes every export, and scans the page."""
    return lambda found: _click_through(found, tmp_path)
