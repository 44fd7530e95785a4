"""The explorer page in a real browser, answered by `elmo serve`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import entity_files
import models
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx")
from served import Served, serving
from typer.testing import CliRunner

from elmokit.cli import app

ASK = "async ([call, argument]) => (await import('./backend.js')).openBackend(() => {}).then((b) => b[call](argument))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("task")
    for name, n, seed in (("train.txt", 20, 0), ("dev.txt", 8, 1)):
        entity_files.write(folder / name, n, seed=seed)
    bilm, _, _ = models.write_variant(folder / "bilm", "usual")
    files = ["--train", folder / "train.txt", "--dev", folder / "dev.txt", "-o", folder / "ner", "--model", bilm]
    small = [
        "--hidden",
        "16",
        "--layers",
        "1",
        "--character-filters",
        "8",
        "--word-dim",
        "12",
        "--batch-size",
        "8",
        "--epochs",
        "2",
        "--threads",
        "1",
    ]
    arguments = ["task", "ner", "train", *map(str, files), *small, "--cache-dir", str(folder / "cache")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    with serving("--task", folder / "ner") as server:
        yield server


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_the_page_answered_by_the_server(
    watched: Any, open_all: Any, check_rules: Any, server: Served, size: str, scheme: str
) -> None:
    found = watched(size, scheme, at=server.address)
    page = found.ready()
    assert page.inner_text("#backend").startswith("Computed by the server (elmokit")
    open_all(page)
    page.wait_for_selector("#tasks figure svg", timeout=30_000)
    assert page.locator("#map .dot").count() > 36
    start = time.monotonic()
    page.click("#compare .choice button:text-is('bank')")
    page.wait_for_selector("#compare .chip[aria-pressed=true]:text-is('bank')")
    assert time.monotonic() - start < 5  # 200 ms on a machine that does nothing else
    check_rules(found)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "scheme"), [("desktop", "dark"), ("phone", "light")])
def test_click_through_with_a_server(
    watched: Any, clicked_through: Any, server: Served, size: str, scheme: str
) -> None:
    clicked_through(watched(size, scheme, at=server.address))


def test_a_key_is_the_password_of_the_page(browser: Any) -> None:
    with serving(ELMO_API_KEY="of-the-page") as server:
        context = browser.new_context(http_credentials={"username": "anybody", "password": "of-the-page"})
        page = context.new_page()
        page.goto(server.address)
        page.wait_for_selector("#compare figure", timeout=60_000)
        assert page.inner_text("#backend").startswith("Computed by the server")
        context.close()


def test_both_back_ends_agree(browser: Any, server: Served, address: str) -> None:
    """Every function that both have, asked of the server and of the page that computes by itself."""
    texts = ["The actor was praised in the play.", "Ünïcödé naïve 눈이 옵니다 花園 😀", ["a", "b"]]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tokenize", {"texts": texts[:2]}),
        ("embedAll", {"texts": texts, "select": [[1, 3], [0], [1]]}),
        ("predictNext", {"text": "the ___ of a", "direction": "gap", "gap": "___", "top": 5}),
        ("neighbors", {"word": "beautiful", "top": 5}),
        ("explain", {"word": "beautifully"}),
    ]
    answers = []
    for place in (server.address, address):
        context = browser.new_context()
        page = context.new_page()
        page.goto(place)
        page.wait_for_selector("#compare figure", timeout=60_000)
        answers.append([page.evaluate(ASK, list(call)) for call in calls])
        context.close()
    for (name, _), ours, theirs in zip(calls, *answers, strict=True):
        assert_close(ours, theirs, name)


def assert_close(a: Any, b: Any, where: str) -> None:
    """Equal in structure and words; numbers to 1e-4."""
    if isinstance(b, dict) and isinstance(a, (list, dict)) and all(str(key).isdigit() for key in b):
        b = [b[str(k)] for k in range(len(b))]  # a typed array
    if isinstance(a, dict) and all(str(key).isdigit() for key in a) and isinstance(b, list):
        a = [a[str(k)] for k in range(len(a))]
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_close(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        if a and isinstance(a[0], (int, float)):
            worst = np.abs(np.array(a, dtype=float) - np.array(b, dtype=float)).max()
            assert worst < (0.02 if where.endswith("strengths") else 1e-4), (where, worst)
        else:
            for k, (one, other) in enumerate(zip(a, b, strict=True)):
                assert_close(one, other, f"{where}[{k}]")
    elif isinstance(a, float) or isinstance(b, float):
        assert abs(a - b) < 1e-4, where
    else:
        assert a == b, where
