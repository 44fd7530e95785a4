"""`elmo serve` in a process of its own, on a free port of this machine."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

import elmokit

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "ELMO_API_KEY"},
    "PYTHONPATH": str(Path(elmokit.__file__).parents[1].resolve()),
    "OMP_WAIT_POLICY": "PASSIVE",
    "OMP_NUM_THREADS": "1",
}


class Served:
    """A running server."""

    def __init__(self, arguments: tuple[object, ...], environment: dict[str, str]) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the server)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "elmokit", "serve", "--port", "0", "--threads", "1", *map(str, arguments)],
            env={**ENVIRONMENT, **environment},
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        first = self.process.stdout.readline()
        found = re.match(r"Serving on (http://127\.0\.0\.1:(\d+)) ", first)
        assert found, first + self.stderr()
        self.address, self.port = found[1], int(found[2])

    def wait(self) -> None:
        assert self.process.stdout.readline() == "Ready.\n", self.stderr()

    def stderr(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def engines(self) -> list[int]:
        """Process ids of the engines: children that were spawned, but not multiprocessing's resource tracker."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
        return [pid for pid, command in commands.items() if b"spawn_main" in command]

    def metric(self, name: str) -> float:
        text = httpx.get(f"{self.address}/metrics", timeout=60, verify=False).text
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(rf"{name}[ {{]", line))

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def serving(*arguments: object, wait: bool = True, **environment: str) -> Iterator[Served]:
    server = Served(arguments, environment)
    try:
        if wait:
            server.wait()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.terminate()
            try:
                server.process.wait(60)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
        server.process.stdout.close()
        server.errors.close()


def until(condition: object, seconds: float = 30.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def post_bytes(path: str, body: bytes, length: int | None = None) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body
