"""Bytes of bodies in memory: every way out of a request gives its share back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
from elmokit.serve.limits import Admission, BodyLimit
from elmokit.serve.settings import ServeSettings

PART = {"type": "http.request", "body": b"x" * 1000, "more_body": True}
LAST = {**PART, "more_body": False}
GONE = {"type": "http.disconnect"}
SCOPE = {"type": "http", "path": "/embed", "headers": []}


class Request:
    """A request through the limits: messages that arrive, then silence."""

    def __init__(self, *messages: dict[str, Any], max_bytes: int = 10_000, fails: bool = False) -> None:
        settings = ServeSettings(max_bytes=max_bytes, timeout=30)
        self.admission = Admission(settings)
        self.limit = BodyLimit(self.app, settings, self.admission)
        self.messages, self.fails = list(messages), fails
        self.seen: list[int] = []  # bytes of bodies while the application runs
        self.statuses: list[int] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(self.admission.body_bytes)
        assert len((await receive())["body"]) == self.admission.body_bytes
        if self.fails:
            raise RuntimeError

    async def receive(self) -> Any:
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop(0)

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])

    async def run(self) -> None:
        await self.limit(dict(SCOPE), self.receive, self.send)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run in a thread: in this one, a browser of other tests may have its event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, coroutine).result()


def test_answered() -> None:
    request = Request(PART, LAST)
    run(request.run())
    assert request.seen == [2000] and request.admission.body_bytes == 0


def test_disconnected() -> None:
    request = Request(PART, PART, GONE)
    run(request.run())
    assert request.seen == request.statuses == [] and request.admission.body_bytes == 0


def test_refused() -> None:
    request = Request(PART, PART, PART, max_bytes=2500)
    run(request.run())
    assert request.statuses == [413] and request.admission.body_bytes == 0


def test_failed() -> None:
    request = Request(LAST, fails=True)
    with pytest.raises(RuntimeError):
        run(request.run())
    assert request.seen == [1000] and request.admission.body_bytes == 0


def test_canceled() -> None:
    request = Request(PART, PART)

    async def cancel() -> None:
        task = asyncio.create_task(request.run())
        while request.messages:
            await asyncio.sleep(0)
        assert request.admission.body_bytes == 2000
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel())
    assert request.admission.body_bytes == 0
