"""The API of `elmo serve`, against a real server."""

from __future__ import annotations

import base64
import io
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import entity_files
import models
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
httpx = pytest.importorskip("httpx")
from served import ENVIRONMENT, Served, serving  # noqa: E402

from elmokit import Elmo, TaskModel  # noqa: E402

TEXTS = ["I will buy you a present.", "Live in the present — it’s $5.", "눈이 옵니다", ""]
TOKENS = ["Live", "in", "the", "present"]
NPZ, MSGPACK, ARROW = "application/x-npz", "application/msgpack", "application/vnd.apache.arrow.stream"


def elmo_command(*arguments: object, cwd: Path) -> None:
    command = [sys.executable, "-m", "elmokit", *map(str, arguments)]
    result = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task run, an index and static vectors."""
    folder = tmp_path_factory.mktemp("loaded")
    for name, n, seed in (("train.txt", 20, 0), ("dev.txt", 8, 1)):
        entity_files.write(folder / name, n, seed=seed)
    models.write_variant(folder / "bilm", "usual")
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
        "--model",
        "bilm",
    ]
    files = ["--train", "train.txt", "--dev", "dev.txt", "-o", "ner", "--cache-dir", "cache", "--threads", "1"]
    elmo_command("task", "ner", "train", *files, *small, cwd=folder)
    lines = ["The actor was praised in the play .", "They play in the garden .", "A play of light ."]
    (folder / "corpus.txt").write_text("\n".join(lines))
    elmo_command("index", "build", "--corpus", "corpus.txt", "-o", "corpus.index", cwd=folder)
    (folder / "glove.txt").write_text("play 1 0\ngame 0.9 0.1\ntax 0 1\n")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    loaded = (
        "--task",
        f"people={folder / 'ner'}",
        "--index",
        folder / "corpus.index",
        "--vectors",
        folder / "glove.txt",
    )
    limits = ("--max-bytes", 200_000, "--max-tokens", 2000, "--max-sentences", 100)
    with serving(*loaded, *limits) as server:
        yield server


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return Elmo.from_pretrained()


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with httpx.Client(base_url=server.address, timeout=60) as client:
        yield client


def ask(client: Any, path: str, status: int = 200, **body: Any) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json()


def test_status(client: Any, elmo: Elmo) -> None:
    assert client.get("/health").json() == {"status": "ok"} and client.get("/ready").json() == {"status": "ready"}
    info = client.get("/info").json()
    assert info["backend"] == "server" and info["index"] is True
    assert info["tasks"] == [{"name": "people", "task": "ner"}]
    assert info["model"]["name"] == "base" and info["model"]["language"] == "en" and info["model"]["has_softmax"]
    assert (info["model"]["n_layers"], info["model"]["dim"]) == (elmo.config.n_vectors, elmo.config.vector_dim)
    assert info["model"]["fingerprint"] == elmo.model.fingerprint
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/embed", "/embed_all", "/tokenize", "/v1/embeddings", "/task/{name}", "/metrics"} <= paths.keys()
    docs = client.get("/docs").text
    assert all(f"{path}</code>" in docs for path in paths) and "http" not in docs


def test_tokenize(client: Any, elmo: Elmo) -> None:
    answers = ask(client, "/tokenize", texts=[*TEXTS, TOKENS])
    for answer, sentence in zip(answers, elmo.embed(TEXTS), strict=False):
        assert answer["tokens"] == sentence.tokens
        assert [tuple(pair) for pair in answer["offsets"]] == sentence.offsets
    assert answers[-1] == {"tokens": TOKENS, "offsets": None}
    assert ask(client, "/tokenize", inputs="a,b", tokenizer="spaces") == [{"tokens": ["a,b"], "offsets": [[0, 3]]}]


def test_sentence_vectors(client: Any, elmo: Elmo) -> None:
    inputs = [*TEXTS, TOKENS]
    sentences = list(elmo.embed(inputs))
    plain = np.array(ask(client, "/embed", texts=inputs, normalize=False), dtype=np.float32)
    assert np.abs(plain - [one.vector() for one in sentences]).max() < 1e-5
    unit = np.array(ask(client, "/embed", texts=inputs))
    assert np.allclose(np.linalg.norm(unit, axis=1), [1, 1, 1, 0, 1], atol=1e-5)  # no tokens, no direction
    wanted: list[tuple[dict[str, Any], Any]] = [
        ({"pooling": "max", "layers": "top"}, lambda s: s.layers[-1].max(axis=0)),
        ({"layers": 1}, lambda s: s.layers[1].mean(axis=0)),
        ({"layers": [0.5, 0, 2]}, lambda s: (0.5 * s.layers[0] + 2 * s.layers[2]).mean(axis=0)),
        ({"punctuation": False}, lambda s: s.vector(punctuation=False)),
    ]
    powers = np.exp([1.0, 0.0, -1.0])
    mix = 3 * powers / powers.sum()
    option = {"mix": {"weights": [1, 0, -1], "gamma": 3}}
    wanted.append((option, lambda s: np.tensordot(mix, s.layers, 1).mean(axis=0)))
    for options, expected in wanted:
        found = np.array(ask(client, "/embed", texts=TEXTS[:3], normalize=False, **options))
        assert np.abs(found - [expected(one) for one in sentences[:3]]).max() < 1e-5, options


def test_token_vectors(client: Any, elmo: Elmo) -> None:
    inputs = [*TEXTS, TOKENS]
    for answer, sentence in zip(ask(client, "/embed_all", texts=inputs), elmo.embed(inputs), strict=True):
        assert answer["tokens"] == sentence.tokens and tuple(answer["shape"]) == sentence.layers.shape
        assert np.allclose(np.array(answer["vectors"]).reshape(sentence.layers.shape), sentence.layers, atol=1e-5)
    chosen = ask(client, "/embed_all", texts=TEXTS[:2], select=[[1, 3], None], encoding_format="base64", layers="top")
    for answer, sentence, at in zip(chosen, elmo.embed(TEXTS[:2]), ([1, 3], slice(None)), strict=True):
        found = np.frombuffer(base64.b64decode(answer["vectors"]), dtype="<f4").reshape(answer["shape"])
        assert np.allclose(found, sentence.layers[-1:, at], atol=1e-5) and answer["tokens"] == sentence.tokens


def test_formats_have_the_same_bits(client: Any, elmo: Elmo) -> None:
    msgpack, ipc = pytest.importorskip("msgpack"), pytest.importorskip("pyarrow.ipc")
    inputs = [*TEXTS, TOKENS]
    sentences = ask(client, "/embed_all", texts=inputs, encoding_format="base64")
    exact = [np.frombuffer(base64.b64decode(s["vectors"]), "<f4").reshape(s["shape"]) for s in sentences]
    joined = np.concatenate(exact, axis=1)
    as_json = [np.array(s["vectors"], dtype=np.float32) for s in ask(client, "/embed_all", texts=inputs)]
    assert all(np.array_equal(a.reshape(b.shape), b) for a, b in zip(as_json, exact, strict=True))

    def binary(path: str, kind: str) -> bytes:
        response = client.post(path, json={"texts": inputs}, headers={"Accept": kind})
        assert response.status_code == 200 and response.headers["content-type"] == kind, response.text
        return response.content

    npz = np.load(io.BytesIO(binary("/embed_all", NPZ)), allow_pickle=False)
    assert np.array_equal(npz["vectors"], joined) and npz["lengths"].tolist() == [len(s["tokens"]) for s in sentences]
    assert json.loads(npz["tokens"].tobytes()) == [s["tokens"] for s in sentences]
    packed = msgpack.unpackb(binary("/embed_all", MSGPACK))
    assert [s["tokens"] for s in packed] == [s["tokens"] for s in sentences]
    assert b"".join(s["vectors"] for s in packed) == b"".join(a.tobytes() for a in exact)
    table = ipc.open_stream(binary("/embed_all", ARROW)).read_all()
    assert table["token"].to_pylist() == [token for s in sentences for token in s["tokens"]]
    rows = np.array(table["vectors"].to_pylist(), dtype=np.float32).reshape(len(table), len(joined), -1)
    assert np.array_equal(rows.transpose(1, 0, 2), joined) and table.schema.metadata == {b"layers": b"3"}
    assert table["start"][0].as_py() == 0 and table["start"][-1].as_py() is None

    unit = np.array(ask(client, "/embed", texts=inputs), dtype=np.float32)
    assert np.array_equal(np.load(io.BytesIO(binary("/embed", NPZ)))["vectors"], unit)
    packed = msgpack.unpackb(binary("/embed", MSGPACK))
    assert packed["vectors"] == unit.tobytes() and packed["shape"] == list(unit.shape)
    assert np.array_equal(ipc.open_stream(binary("/embed", ARROW)).read_all()["vector"].to_pylist(), unit)
    assert np.abs(joined - np.concatenate([s.layers for s in elmo.embed(inputs)], axis=1)).max() < 1e-6


def test_methods(client: Any) -> None:
    for path in ("/embed", "/task/people", "/v1/embeddings"):
        answer = client.get(path)
        assert answer.status_code == 405 and answer.headers["allow"] == "POST", path
    assert client.put("/").status_code == 405 and client.get("/docs/x").status_code == 404
    page = client.head("/")
    assert page.status_code == 200 and page.content == b"" and int(page.headers["content-length"]) > 1000


def test_fields_of_text_embeddings_inference(client: Any) -> None:
    body = {"inputs": TEXTS[:2], "normalize": True, "truncate": True}
    assert np.allclose(ask(client, "/embed", **body), ask(client, "/embed", texts=TEXTS[:2]), atol=1e-6)


def test_accept(client: Any) -> None:
    def kind(accept: str) -> str:
        response = client.post("/embed", json={"texts": "a"}, headers={"Accept": accept})
        return response.headers["content-type"] if response.status_code == 200 else str(response.status_code)

    assert kind("text/html, application/x-npz;q=0.5, application/json;q=0.2") == NPZ
    assert kind("application/x-npz;q=0.1, */*") == "application/json" and kind("image/png") == "406"
    assert kind("application/json;q=x, application/x-msgpack") == MSGPACK


def test_results_do_not_depend_on_the_company(server: Served, elmo: Elmo) -> None:
    rng = random.Random(0)
    words = [
        "the",
        "present",
        "play",
        "of",
        "light",
        "and",
        "bank",
        "garden",
        "actor",
        "was",
        "praised",
        "in",
        "an",
        "unusual",
        "zymurgy",
    ]
    requests = [
        [[rng.choice(words) for _ in range(rng.randint(1, 12))] for _ in range(rng.randint(1, 4))] for _ in range(60)
    ]
    expected = [[sentence.vectors for sentence in elmo.embed(sentences)] for sentences in requests]
    with httpx.Client(base_url=server.address, timeout=60) as client, ThreadPoolExecutor(20) as threads:
        ask_one = lambda sentences: ask(client, "/embed_all", texts=sentences, layers="average")  # noqa: E731
        for answers, arrays in zip(threads.map(ask_one, requests), expected, strict=True):
            for answer, array in zip(answers, arrays, strict=True):
                assert np.abs(np.array(answer["vectors"])[0] - array).max() < 1e-5
    assert server.metric("elmo_batch_requests_count") < server.metric("elmo_batch_requests_sum")  # they were joined


def test_stock_openai_client(server: Served, elmo: Elmo) -> None:
    openai = pytest.importorskip("openai", reason="needs the client: pip install openai")
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0) as client:
        for options in ({}, {"encoding_format": "float"}):
            answer = client.embeddings.create(model="base", input=TEXTS[:2], **options)
            expected = [one.vector() / np.linalg.norm(one.vector()) for one in elmo.embed(TEXTS[:2])]
            assert np.allclose([one.embedding for one in answer.data], expected, atol=1e-5)
            assert answer.model == "base" and answer.usage.total_tokens == sum(
                len(s.tokens) for s in elmo.embed(TEXTS[:2])
            )
        assert [model.id for model in client.models.list()] == ["base"]
        with pytest.raises(openai.UnprocessableEntityError, match=f"dimensions: expected {elmo.config.vector_dim}"):
            client.embeddings.create(model="base", input="a", dimensions=7)


def test_explorer_calls(client: Any, elmo: Elmo) -> None:
    for direction, text in (("forward", "Let's stick to"), ("backward", "of the river."), ("gap", "the ___ of a")):
        found = ask(client, "/predict_next", text=text, direction=direction, top=4)
        expected = elmo.predict_next(text, direction=direction, top=4)
        assert [one["word"] for one in found] == [one.word for one in expected]
        assert np.allclose([one["probability"] for one in found], [one.probability for one in expected], atol=1e-5)
    near = ask(client, "/neighbors", word="play", top=1)
    assert near["source"] == "glove.txt" and near["neighbors"][0]["word"] == "game"
    near = ask(client, "/neighbors", word="play", text="She saw a play .", top=2)["neighbors"]
    assert all(one["tokens"][one["position"]] == one["word"] for one in near) and len(near) == 2
    compared = ask(client, "/compare", texts=["a present", "the present"], words=["present"])
    assert (
        math.isclose(compared["similarity"]["layer 0"], 1, abs_tol=1e-5) and compared["similarity"]["layer 2"] < 0.999
    )
    occurrences = ask(client, "/occurrences", word="play", limit=2)
    assert len(occurrences) == 2 and all(one["tokens"][one["position"]].lower() == "play" for one in occurrences)
    explained = ask(client, "/explain", word="눈a")
    assert [one["text"] for one in explained["symbols"]] == ["^", "눈", "", "", "a", "$"]
    points = ask(client, "/project", texts=TEXTS[:3], select=[[0], [1], [0]], weights=[0, 0, 1], method="pca")
    assert np.shape(points) == (3, 2) and np.allclose(np.mean(points, axis=0), 0, atol=1e-4)


def test_tasks(client: Any, folder: Path) -> None:
    text = "Ada Lovelace met Euler in Basel ."
    run = TaskModel.from_pretrained(folder / "ner", model=str(folder / "bilm"))
    assert ask(client, "/task/people", text=text) == json.loads(json.dumps(run.predict([text])))
    assert len(ask(client, "/task/people", texts=[text, "Euler lives ."])) == 2
    assert "loaded: people" in ask(client, "/task/nobody", 404, text=text)["error"]
    assert "either" in ask(client, "/task/people", 422)["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/embed", {"texts": ["a"] * 101}, 413, "at most 100 per request, found 101"),
        ("/embed", {"texts": ["a " * 2001]}, 413, "at most 2,000 tokens per request, found 2,001"),
        ("/embed", {"texts": "a" * 300_000}, 413, "at most 200,000 bytes"),
        ("/embed", {"texts": []}, 422, "at least one text"),
        ("/embed", {"texts": [1]}, 422, "texts"),
        ("/embed", {"txts": ["a"]}, 422, "texts: Field required"),
        ("/embed", {"texts": "a", "layer": 1}, 422, "layer: Extra inputs"),
        ("/embed", {"texts": "a", "layers": 3}, 422, "layers: this model has 0 to 2, found 3"),
        ("/embed", {"texts": "a", "layers": "all"}, 422, "found all"),
        ("/embed", {"texts": "a", "mix": {"weights": [1]}}, 422, "expected 3 weights"),
        ("/embed_all", {"texts": "a", "select": [[1]]}, 422, "expected tokens 0 to 0 of text 0, found 1"),
        ("/embed_all", {"texts": ["a"], "select": []}, 422, "a list per text"),
        ("/embed_all", {"texts": ["a"], "select": [[0, 0]]}, 422, "at most 1"),
        ("/predict_next", {"text": "no gap", "direction": "gap"}, 422, "expected one '___'"),
        ("/compare", {"texts": ["a b", "c"], "words": ["x"]}, 422, "word: expected a token of the sentence"),
        ("/neighbors", {"word": "zzzz"}, 422, "expected a word that has a vector"),
        ("/project", {"texts": ["a"], "select": [[0]], "weights": [0, 0, 1]}, 422, "a map needs 3 points"),
        ("/nothing", {}, 404, "no such address"),
        ("/health", {}, 405, "expected GET, found POST"),
    ],
)  # fmt: skip
def test_refusals(client: Any, path: str, body: dict[str, Any], status: int, words: str) -> None:
    answer = ask(client, path, status, **body)
    assert words in answer["error"] and "\n" not in answer["error"]


@pytest.mark.parametrize(
    "content", [b"{", b"", b"[]", b'{"texts": "a", "layers": [NaN, 0, 1]}', b'{"texts": "a", "layers": [1e999, 0, 1]}',
                b'{"texts": ' + b"[" * 90_000 + b"]" * 90_000 + b"}", b'{"texts": "\\ud800"}', b"\xff\xfe", b"null"],
)  # fmt: skip
def test_malformed_bodies(client: Any, content: bytes) -> None:
    response = client.post("/embed", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422) and isinstance(response.json()["error"], str)


def test_errors_for_openai_clients(client: Any) -> None:
    answer = ask(client, "/v1/embeddings", 422, input=[[1, 2]])
    assert answer["error"]["type"] == "invalid_request_error" and "input" in answer["error"]["message"]


def test_page_and_headers(client: Any) -> None:
    page = client.get("/")
    assert "<title>ELMo explorer</title>" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    for path in ("/", "/app.js", "/info", "/nothing", "/style.css"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "access-control-allow-origin" not in headers and "server" not in headers
    assert client.get("/app.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/", headers={"If-None-Match": page.headers["etag"]}).status_code == 304


@pytest.mark.parametrize(
    "path", ["/../pages.py", "/..%2fpages.py", "//etc/passwd", "/%2e%2e/app.py", "/data/", "/elmo%00"]
)
def test_no_path_reaches_the_file_system(server: Served, path: str) -> None:
    with server.connect() as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert connection.makefile("rb").readline().split()[1] in (b"404", b"400")


def test_metrics(client: Any, server: Served) -> None:
    before = server.metric("elmo_tokens_total")
    ask(client, "/embed", texts=[TOKENS])
    deadline = time.monotonic() + 10  # a batch may be counted just after it was answered
    while server.metric("elmo_tokens_total") == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.metric("elmo_tokens_total") == before + 4
    client.get("/")
    text = client.get("/metrics").text
    assert 'path="page"' in text and "path:path" not in text
    for name in (
        "elmo_requests_total",
        "elmo_request_seconds_bucket",
        "elmo_queue_requests",
        "elmo_body_bytes",
        "elmo_batch_tokens_bucket",
    ):
        assert name in text
    assert 'path="/task/{name}"' in text or "task" not in text
    assert server.metric("elmo_queue_requests") == 0 and server.metric("elmo_queue_tokens") == 0
