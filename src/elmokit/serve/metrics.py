"""Metrics in the text format of Prometheus, by its own client library."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmokit.serve.api_errors import CLIENT_GONE
from elmokit.serve.batching import BatchDone

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_POWERS = tuple(2**k for k in range(15))

PAGE_ROUTE = "/{path:path}"  # the explorer page; in metrics its name is "page"


class Metrics:
    """Counters, gauges and histograms of `/metrics`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        add: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("elmo_requests", "Requests by path and status.", ["path", "status"], **add)
        self.seconds = Histogram(
            "elmo_request_seconds", "Time from the request to the end of its answer.", ["path"], buckets=_SECONDS, **add
        )
        self.queue_requests = Gauge("elmo_queue_requests", "Requests that wait or are being answered.", **add)
        self.queue_tokens = Gauge("elmo_queue_tokens", "Tokens of these requests.", **add)
        self.body_bytes = Gauge("elmo_body_bytes", "Bytes of request bodies in memory.", **add)
        self.workers = Gauge("elmo_workers_ready", "Engine processes that are ready.", **add)
        self.restarts = Counter("elmo_worker_restarts", "Engine processes that ended and were started again.", **add)
        self.batch_requests = Histogram("elmo_batch_requests", "Requests per batch.", buckets=_POWERS, **add)
        self.batch_tokens = Histogram("elmo_batch_tokens", "Tokens per batch.", buckets=_POWERS, **add)
        self.tokens = Counter("elmo_tokens", "Tokens embedded; its rate is tokens/s.", **add)
        self.sentences = Counter("elmo_sentences", "Sentences embedded.", **add)
        self.busy = Counter("elmo_engine_busy_seconds", "Time that engines spent on batches.", **add)

    def count_batch(self, batch: BatchDone) -> None:
        """A batch was computed."""
        self.batch_requests.observe(batch.requests)
        self.batch_tokens.observe(batch.tokens)
        self.tokens.inc(batch.tokens)
        self.sentences.inc(batch.sentences)
        self.busy.inc(batch.seconds)

    def text(self) -> bytes:
        """The current values."""
        return generate_latest(self.registry)


class CountRequests:
    """ASGI middleware: counts requests by the path of their route, never by the one that was sent."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), CLIENT_GONE

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            path = "page" if route == PAGE_ROUTE else route
            self.metrics.requests.labels(path, status).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - start)
