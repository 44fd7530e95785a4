"""The page as the client of a server: the contract of `page/backend.js`, answered here by the engine."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit import Elmo

TASKS = {
    "ner": {
        "tokens": ["Ada", "Lovelace", "lived", "in", "London", "."],
        "entities": [{"start": 0, "end": 2, "label": "PER"}, {"start": 4, "end": 5, "label": "LOC"}],
    },
    "srl": {
        "tokens": ["She", "gave", "him", "books"],
        "propositions": [{"predicate": "gave", "index": 1, "arguments": [{"role": "ARG0", "start": 0, "end": 1}]}],
    },
    "coref": {
        "sentences": [["Anna", "met", "her", "brother"]],
        "clusters": [[{"start": 0, "end": 1}, {"start": 2, "end": 3}], [{"start": 2, "end": 4}]],
    },
    "sst": {"text": "fine", "sentiment": "positive", "label": "3", "probabilities": {"3": 0.8, "2": 0.2}},
    "snli": {"label": "entailment", "probabilities": {"entailment": 0.9, "neutral": 0.1}},
    "pos": {"tokens": ["She", "left"], "tags": ["PRP", "VBD"], "scores": [0.9, 0.8]},
    "upos": {"tokens": ["She", "left"], "tags": ["PRON", "VERB"], "scores": [0.9, 0.8]},
    "weather": {"tokens": ["sun", "rain"], "chances": {"sun": 0.25}},  # of another version: the page has no picture
    "squad": {"question": "When?", "answer": "1894", "score": 0.7, "context": "built in **1894** by"},
}


class Server:
    """Answers the requests of the page."""

    def __init__(self, elmo: Elmo) -> None:
        self.elmo, self.asked = elmo, []

    def __call__(self, route: Any) -> None:
        path = route.request.url.split("/site/")[1].split("?")[0]
        body = json.loads(route.request.post_data or "{}")
        self.asked.append(path)
        answer = self.answer(path, body)
        status = 422 if isinstance(answer, dict) and "error" in answer else 200
        route.fulfill(status=status, json=answer)

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        if path == "info":
            model = {
                "name": "base", "language": "en", "parameters": 3_000_000, "n_layers": 3,
                "dim": self.elmo.config.vector_dim, "has_softmax": True, "has_characters": True,
            }  # fmt: skip
            tasks = [{"name": f"my {task}", "task": task} for task in TASKS]
            return {
                "backend": "server",
                "version": "1.2.3",
                "model": model,
                "tasks": tasks,
                "index": True,
                "umap": True,
            }
        if path == "embed_all":
            assert body["encoding_format"] == "base64"
            return [self.embedded(text, chosen) for text, chosen in zip(body["texts"], self.selects(body), strict=True)]
        if path == "predict_next":
            found = self.elmo.predict_next(body["text"], direction=body["direction"], top=body["top"], gap=body["gap"])
            return [{"word": one.word, "probability": one.probability} for one in found]
        if path == "neighbors":
            return {"source": "static vectors", "neighbors": [{"word": "game", "similarity": 0.7}]}
        if path == "explain":
            symbols = [{"text": "^", "char": -1}, {"text": "a", "char": 0}, {"text": "$", "char": -2}]
            return {
                "word": body["word"], "symbols": symbols, "widths": [2], "starts": [0], "activations": [1.0],
                "strengths": [2.5],
            }  # fmt: skip
        if path == "occurrences":
            return [{"tokens": ["A", body["word"], "of", "ours"], "position": 1}]
        if path == "project":
            assert len(body["weights"]) == 3 and body["gamma"] > 0
            return [[k, -k] for k, _ in enumerate(body["texts"])]
        assert path.startswith("task/my%20")
        return (
            {"error": "text: expected words, found none"}
            if not body["text"]
            else [TASKS[path.removeprefix("task/my%20")]]
        )

    def selects(self, body: dict[str, Any]) -> list[list[int] | None]:
        return body["select"] or [None] * len(body["texts"])

    def embedded(self, text: str | list[str], chosen: list[int] | None) -> dict[str, Any]:
        (sentence,) = self.elmo.embed([text])
        layers = sentence.layers if chosen is None else sentence.layers[:, chosen]
        vectors = base64.b64encode(layers.astype("<f4").tobytes()).decode()
        return {"tokens": sentence.tokens, "offsets": sentence.offsets, "shape": layers.shape, "vectors": vectors}


@pytest.fixture
def server() -> Server:
    return Server(Elmo.from_pretrained())


def test_every_section_with_a_server(watched: Any, server: Server) -> None:
    def intercept(page: Any) -> None:
        names = ["info", "embed_all", "predict_next", "neighbors", "explain", "occurrences", "project", "task/*"]
        for name in names:
            page.route(f"**/site/{name}", server)

    found = watched(suffix="?backend=server", before=intercept)
    page = found.ready()
    page.wait_for_selector("#backend:has-text('Computed by the server (elmokit 1.2.3)')")
    for section in ("map", "next", "inside", "paper"):
        page.click(f"nav a[href='#{section}']")
        page.wait_for_selector(f"#{section} figure", timeout=30_000)
    page.wait_for_selector("text=38 occurrences")  # with the one of the server's index
    page.wait_for_selector("text=static vectors")
    page.click("#map .choice button:text-is('UMAP')")
    page.wait_for_selector("#map figure:first-of-type .note:has-text('Drawn by UMAP')")
    assert "project" in server.asked and "variance" not in page.inner_text("#map figure:first-of-type .note")
    page.click("#map .choice[aria-label=Clusters] button:text-is('3')")  # colors change, the points stay
    for kind, drawn in (("UMAP", True), ("PCA", False)):
        page.click(f"#map .choice button:text-is('{kind}')")
        page.wait_for_selector(f"#map figure:first-of-type .note:has-text('{kind}')")
        with page.expect_download() as download:
            page.click("#map figure:first-of-type .exports button:text-is('JSON')")
        exported = json.loads(Path(download.value.path()).read_text())
        steps = np.diff([[point["x"], point["y"]] for point in exported["points"]], axis=0)
        assert exported["method"] == kind and np.allclose(steps, [1, -1]) == drawn  # as the server answered
    page.click("nav a[href='#tasks']")
    for task, shown in (
        ("ner", "svg[aria-label='Ada Lovelace: PER; London: LOC']"), ("srl", "svg[aria-label='gave: V; She: ARG0']"),
        ("coref", "svg[aria-label='Anna: 1; her: 1; her brother: 2']"), ("sst", ":text('Sentiment: positive')"),
        ("snli", ":text('Relation: entailment')"), ("squad", "svg[aria-label='1894: answer, 70%']"),
        ("pos", "svg[aria-label='She: PRP; left: VBD']"), ("upos", "svg[aria-label='She: PRON; left: VERB']"),
    ):  # fmt: skip
        page.click(f"#tasks .choice button:text-is('my {task}')")
        page.wait_for_selector(f"#tasks [aria-live] figure {shown}")
        with page.expect_download() as download:
            page.click("#tasks .exports button:text-is('CSV')")
        assert len(Path(download.value.path()).read_text().splitlines()) > 1
    page.click("#tasks .choice button:text-is('my weather')")
    page.wait_for_selector("#tasks [aria-live] table:has-text('sun rain')")
    assert "undefined" not in page.inner_text("#tasks") and "0.25" in page.inner_text("#tasks table")
    page.click("#tasks .choice button:text-is('my coref')")
    inner, outer = (page.locator(f"#tasks .span-label:text-is('{k}')").last for k in (1, 2))
    assert inner.get_attribute("y") < outer.get_attribute("y")  # nested mentions are both shown
    assert found.faults == []
    page.fill("#tasks-text", "")
    page.wait_for_selector("#tasks .message:has-text('expected words')")
    assert "model/weights.safetensors" not in server.asked
