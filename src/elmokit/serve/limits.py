"""Limits: size of a body, time to send and to read it, and how much may wait at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmokit.serve.api_errors import ApiError, error_response, overloaded, too_large
from elmokit.serve.settings import ServeSettings

CHUNK = 256 * 1024  # bytes of an answer that are handed to the socket at a time
BODY_ROOM = 32  # maximum size of all bodies being read, in multiples of the maximum size of one
SLOT = "elmokit.slot"  # scope key of the function that releases the request's place in the queue


class Admission:
    """Counts the requests that wait or whose answers are being sent, their tokens, and the bytes of bodies."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self.requests = self.tokens = self.body_bytes = 0
        self.tokens_per_second = 0.0  # of the engines, a moving average

    def enter(self, tokens: int) -> Callable[[], None]:
        """Take a place in the queue, or raise 429. Returns the function that gives the place back."""
        if (
            self.requests >= self._settings.queue_requests
            or (self.tokens and self.tokens + tokens > self._settings.queue_tokens)
        ):  # fmt: skip
            raise overloaded(self.retry_after())
        self.requests += 1
        self.tokens += tokens

        def leave() -> None:
            self.requests -= 1
            self.tokens -= tokens

        return leave

    def retry_after(self) -> int:
        """Seconds after which half of the queue should be done."""
        return max(1, min(60, math.ceil(self.tokens / 2 / max(self.tokens_per_second, 1000))))

    def measured(self, tokens: int, seconds: float) -> None:
        """A batch was computed."""
        rate = tokens / max(seconds, 1e-6)
        self.tokens_per_second = rate if not self.tokens_per_second else 0.9 * self.tokens_per_second + 0.1 * rate


class BodyLimit:
    """ASGI middleware: reads the whole body within its limits, before anything looks at it."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, admission: Admission) -> None:
        self.app, self.settings, self.admission = app, settings, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse (408, 413, 429), or pass the request on with its body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = bytearray()  # its length is this request's share of `admission.body_bytes`
        try:
            try:
                complete = await self._receive(scope, receive, body)
            except ApiError as error:
                error.headers["Connection"] = "close"  # whatever else the client sends is not read
                await error_response(scope["path"], error)(scope, receive, send)
                return
            if complete:
                await self.app(scope, _replay(bytes(body), receive), send)
        finally:  # on every way out: answered, refused, disconnected, canceled
            self.admission.body_bytes -= len(body)

    async def _receive(self, scope: Scope, receive: Receive, body: bytearray) -> bool:
        """Append the parts of the body as they arrive. Returns whether all did; a client may disconnect before."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                self._check_length(scope)
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    part = message.get("body", b"")
                    body += part
                    self.admission.body_bytes += len(part)
                    self._check_room(len(body))
                    more = message.get("more_body", False)
        except TimeoutError:
            raise ApiError(408, "Timeout", f"expected the body within {self.settings.timeout:g} s") from None
        return True

    def _check_length(self, scope: Scope) -> None:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self.settings.max_bytes:
                raise self._too_large(f"{int(value):,}")

    def _check_room(self, size: int) -> None:
        if size > self.settings.max_bytes:
            raise self._too_large("more")
        if self.admission.body_bytes > BODY_ROOM * self.settings.max_bytes:
            raise overloaded(self.admission.retry_after())

    def _too_large(self, found: str) -> ApiError:
        return too_large(
            f"body: expected at most {self.settings.max_bytes:,} bytes, found {found}; send less at a time"
        )


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then further messages, that is, the client's disconnection."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


class SlowReaders:
    """ASGI middleware: sends responses in chunks, and gives up on a client that stops reading.

    Until its answer is sent, a request keeps its place in the queue; so the answers in memory are bounded, too.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app, self.timeout = app, settings.timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and give its place back at the end."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            await self.app(scope, receive, lambda message: self._send(message, send))
        except _Stalled:
            pass  # uvicorn closes a connection whose answer is incomplete
        finally:
            if leave := scope.pop(SLOT, None):
                leave()

    async def _send(self, message: Message, send: Send) -> None:
        body = message.get("body", b"")
        if message["type"] != "http.response.body" or len(body) <= CHUNK:
            await self._in_time(send(message))
            return
        view = memoryview(body)
        for start in range(0, len(body), CHUNK):
            more = message.get("more_body", False) or start + CHUNK < len(body)
            part = {"type": "http.response.body", "body": bytes(view[start : start + CHUNK]), "more_body": more}
            await self._in_time(send(part))

    async def _in_time(self, sending: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self.timeout):
                await sending
        except TimeoutError:
            raise _Stalled from None


class _Stalled(Exception):
    """The client stopped reading."""
