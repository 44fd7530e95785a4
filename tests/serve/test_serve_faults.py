"""`elmo serve` under bad clients, overload, signals and loss."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
httpx = pytest.importorskip("httpx")
from served import ENVIRONMENT, Served, post_bytes, serving, until  # noqa: E402

from elmokit import Elmo, weights  # noqa: E402

TEXT = "The actor was praised in the play ."
LONG = [["the", "play", "was", "long"] * 4] * 125  # 2,000 tokens take a moment


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving("--queue-requests", 4, "--timeout", 60) as server:
        yield server


def embed(server: Served, texts: Any = TEXT, **options: Any) -> Any:
    return httpx.post(f"{server.address}/embed", json={"texts": texts, **options}, timeout=90, verify=False)


def idle(server: Served) -> bool:
    return server.metric("elmo_queue_requests") == 0


def test_a_full_queue_says_when_to_come_again(server: Served) -> None:
    with ThreadPoolExecutor(30) as threads:
        answers = list(threads.map(lambda _: embed(server, LONG), range(30)))
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 60 and "try again in" in refused.json()["error"]
    until(lambda: idle(server))
    assert embed(server).status_code == 200


def test_a_client_that_disappears_leaves_the_queue(server: Served) -> None:
    body = json.dumps({"texts": LONG}).encode()
    before = server.metric("elmo_tokens_total")
    (engine,) = server.engines()
    os.kill(engine, signal.SIGSTOP)  # so that nothing is computed meanwhile
    try:
        connections = [server.connect() for _ in range(4)]
        for connection in connections:
            connection.sendall(post_bytes("/embed", body))
        until(lambda: server.metric("elmo_queue_requests") == 4)
        for connection in connections:
            connection.close()
        until(lambda: idle(server))
    finally:
        os.kill(engine, signal.SIGCONT)
    assert embed(server).status_code == 200
    assert server.metric("elmo_tokens_total") - before <= 8 + 4000  # at most one batch had been taken out of the queue


def test_a_deadline(server: Served) -> None:
    with serving("--timeout", 1) as server:
        (engine,) = server.engines()
        os.kill(engine, signal.SIGSTOP)
        try:
            answer = embed(server)
        finally:
            os.kill(engine, signal.SIGCONT)
        assert answer.status_code == 503 and "within 1 s" in answer.json()["error"]
        assert "retry-after" in answer.headers and embed(server).status_code == 200
        with server.connect() as connection:  # a body that never comes
            connection.sendall(post_bytes("/embed", b"{", length=100))
            assert connection.makefile("rb").readline().split()[1] == b"408"


def test_a_hundred_megabytes(server: Served) -> None:
    with server.connect() as connection:  # announced: refused before it is sent
        connection.sendall(post_bytes("/embed", b"", length=100_000_000))
        assert connection.makefile("rb").readline().split()[1] == b"413"
    with server.connect() as connection:  # in chunks: refused when it is too much
        head = (
            b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(head)
        sent = 0
        try:
            for _ in range(100):
                connection.sendall(b"100000\r\n" + b"a" * 2**20 + b"\r\n")
                sent += 1
        except OSError:
            pass
        assert sent < 20  # it stopped listening
    assert embed(server).status_code == 200
    assert resident_megabytes(server.process.pid) < 500


def test_uploads_that_are_aborted_leave_nothing_behind(server: Served) -> None:
    size = 1_900_000
    for _ in range(2):  # 76 MB in all: more than the server holds at a time
        connections = [server.connect() for _ in range(20)]
        for connection in connections:
            connection.sendall(post_bytes("/embed", b" " * size, length=size + 1))
        until(lambda: server.metric("elmo_body_bytes") == 20 * size)
        for connection in connections:
            connection.close()
        until(lambda: server.metric("elmo_body_bytes") == 0)
    assert embed(server).status_code == 200


def resident_megabytes(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_a_slow_reader_gets_its_answer_and_holds_nobody_up(server: Served) -> None:
    body = json.dumps({"texts": LONG}).encode()  # an answer of some megabytes
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    with connection:
        connection.sendall(post_bytes("/embed_all", body))
        time.sleep(1)
        assert embed(server).status_code == 200
        reader = connection.makefile("rb")
        assert reader.readline().split()[1] == b"200"
        headers = {}
        while line := reader.readline().strip():
            name, _, value = line.partition(b": ")
            headers[name.lower()] = value
        answer = json.loads(reader.read(int(headers[b"content-length"])))
    assert sum(sentence["shape"][1] for sentence in answer) == 2000
    until(lambda: idle(server))


def test_a_reader_that_never_reads_gives_its_place_back() -> None:
    with serving("--queue-requests", 1, "--timeout", 2) as server:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        with connection:
            connection.sendall(post_bytes("/embed_all", json.dumps({"texts": LONG}).encode()))
            until(lambda: server.metric("elmo_queue_requests") == 1)
            assert embed(server).status_code == 429
            until(lambda: idle(server), 20)
            assert embed(server).status_code == 200
        assert "Traceback" not in server.stderr()


def test_sigterm_under_load_loses_nothing() -> None:
    elmo = Elmo.from_pretrained()
    expected, *_ = (one.vector() / np.linalg.norm(one.vector()) for one in elmo.embed(LONG))
    with serving("--queue-tokens", 100_000) as server:
        engines, answers = server.engines(), []

        def ask() -> None:
            answers.append(embed(server, LONG, encoding_format="base64"))

        threads = [threading.Thread(target=ask) for _ in range(24)]
        for thread in threads:
            thread.start()
        until(lambda: server.metric("elmo_queue_requests") + len(answers) == 24)
        server.process.send_signal(signal.SIGTERM)
        for pid in engines:  # as service managers do: the whole group gets the signal
            os.kill(pid, signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert server.process.wait(30) == 0 and server.stderr() == ""
        assert len(answers) == 24
        for answer in answers:
            vector = np.frombuffer(base64.b64decode(answer.json()[0]), "<f4")
            assert answer.status_code == 200 and np.abs(vector - expected).max() < 1e-5
        until(lambda: not any(map(alive, engines)), 10)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_engines_never_outlive_the_server(number: int) -> None:
    with serving("--workers", 2) as server:
        until(lambda: server.metric("elmo_workers_ready") == 2)
        engines = server.engines()
        assert len(engines) == 2
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _: embed(server, LONG).status_code, range(8)))
        assert answers == [200] * 8
        assert server.stop(number) == (-signal.SIGKILL if number == signal.SIGKILL else 0)
        until(lambda: not any(map(alive, engines)), 10)


def test_a_lost_engine_is_replaced(server: Served) -> None:
    (engine,) = server.engines()
    os.kill(engine, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(embed, server)
        until(lambda: server.metric("elmo_queue_requests") == 1)
        os.kill(engine, signal.SIGKILL)
        assert waiting.result().status_code == 424 and "try again" in waiting.result().json()["error"]
    assert httpx.get(f"{server.address}/ready").status_code == 503 and embed(server).status_code == 503
    until(lambda: httpx.get(f"{server.address}/ready").status_code == 200, 60)
    assert embed(server).status_code == 200 and server.metric("elmo_worker_restarts_total") == 1


def test_the_model_is_removed_while_it_is_served(tmp_path: Path) -> None:
    weights.save(weights.load(), tmp_path / "model")
    with serving("--model", tmp_path / "model") as server:
        shutil.rmtree(tmp_path / "model")
        assert embed(server).status_code == 200
        predicted = httpx.post(f"{server.address}/predict_next", json={"text": "Let us stick to"}, timeout=60)
        assert predicted.status_code == 200 and len(predicted.json()) == 10


def test_keys(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret-Key\n")
    with serving("--api-key-file", tmp_path / "key", "--access-log", "--allow-origin", "https://example.org") as server:

        def status(path: str = "/info", **headers: str) -> int:
            return httpx.get(server.address + path, headers=headers).status_code

        assert status("/health") == status("/ready") == 200
        assert status() == status("/") == status("/metrics") == status("/openapi.json") == 401
        assert status(Authorization="Bearer secret-Ke") == status(Authorization="secret-Key") == 401
        assert status(Authorization="Basic !!") == status(Authorization="Bearer secret-Kéy".encode()) == 401
        assert status(Authorization="Bearer secret-Key") == 200
        basic = "Basic " + base64.b64encode(b"anybody:secret-Key").decode()
        assert status("/", Authorization=basic) == 200
        assert (
            httpx.get(server.address, headers={"Accept": "text/html"}).headers["www-authenticate"].startswith("Basic")
        )
        asking = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
        allowed = httpx.options(f"{server.address}/embed", headers=asking)
        assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == "https://example.org"
        other = httpx.options(f"{server.address}/embed", headers={**asking, "Origin": "https://other.org"})
        assert "access-control-allow-origin" not in other.headers
        assert (
            "secret" not in server.stderr() and "secret" not in Path(f"/proc/{server.process.pid}/cmdline").read_text()
        )
    with serving(ELMO_API_KEY="of-the-environment") as server:
        assert status() == 401 and status(Authorization="Bearer of-the-environment") == 200


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "nowhere"], "expected a model file or folder"),
        (["--task", "nowhere"], "nowhere"),
        (["--index", "nowhere"], "elmo index build"),
        (["--vectors", "nowhere"], "expected a readable text file"),
        (["--device", "nowhere"], "device: expected cpu"),
        (["--api-key-file", "nowhere"], "cannot be read"),
        (["--port", "70000"], "--port"),
        (["--workers", "0"], "--workers: expected 1 or more"),
        (["--queue-tokens", "5"], "--queue-tokens"),
        (["--task", "a=x", "--task", "a=y"], "twice"),
        (["--allow-origin", "*"], "--allow-origin"),
        (["--tokenizer", "x"], "tokenizer: expected words"),
        (["--host", "192.0.2.1"], "cannot be used"),
        (["--host", ""], "expected a name or address of this machine"),
    ],
)
def test_bad_options_are_one_line(arguments: list[str], words: str) -> None:
    command = [
        sys.executable,
        "-m",
        "elmokit",
        "serve",
        *(["--port", "0"] if "--port" not in arguments else []),
        *arguments,
    ]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2 and words in result.stderr and result.stderr.count("\n") == 1, result.stderr


def test_a_missing_extra_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "fastapi.py").write_text("raise ImportError('not installed', name='fastapi')")
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"}
    command = [sys.executable, "-m", "elmokit", "serve", "--port", "0"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2 and "pip install 'elmokit[serve]'" in result.stderr, result.stderr


def test_a_port_in_use(server: Served) -> None:
    command = [sys.executable, "-m", "elmokit", "serve", "--port", str(server.port)]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2 and "choose another --port" in result.stderr


def is_healthy(connection: socket.socket) -> bool:
    """Read one answer of /health, in however many pieces it comes."""
    answer = b""
    while not answer.endswith(b'{"status":"ok"}'):
        part = connection.recv(4096)
        if not part:
            return False
        answer += part
    return answer.startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_a_thousand_idle_connections(server: Served) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    resource = pytest.importorskip("resource")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections = [server.connect() for _ in range(1000)]
    try:
        for connection in connections:
            connection.sendall(request)
        assert all(map(is_healthy, connections))
        before = resident_megabytes(server.process.pid)
        start = time.monotonic()
        assert embed(server).status_code == 200 and time.monotonic() - start < 5
        for connection in connections[::10]:
            connection.sendall(request)
            assert is_healthy(connection)
        assert resident_megabytes(server.process.pid) < before + 20
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.slow
def test_schemathesis_finds_no_server_error() -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis: pip install schemathesis")
    from hypothesis import HealthCheck, given, settings

    with serving("--max-tokens", 500, "--timeout", 20) as server:
        schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
        operations = [found.ok() for found in schema.get_all_operations()]
        assert len(operations) >= 15
        for operation in operations:

            @given(case=operation.as_strategy())
            @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            def run(case: Any) -> None:
                assert case.call(base_url=server.address).status_code < 500

            run()
        assert embed(server).status_code == 200 and len(server.engines()) == 1
