"""The engine processes as the server sees them: jobs go out, answers come back, and a lost process is replaced."""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from starlette.types import Receive

from elmokit.serve.api_errors import CLIENT_GONE, ApiError, engine_failed, refused, unavailable
from elmokit.serve.batching import Answer, BatchDone, Cancel, Failed, Job, Ready
from elmokit.serve.engine_process import run_engine
from elmokit.serve.settings import ServeSettings
from elmokit.serve.wire import receive, send

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 30.0  # seconds before a process that keeps ending is started again
_STEADY = 60.0  # seconds after which a process counts as started well
_STOPPED = "the engine process stopped while it computed; it is being restarted, try again"


class EnginePool:
    """Some engine processes; a job goes to the one with the least to do."""

    def __init__(
        self, settings: ServeSettings, on_batch: Callable[[BatchDone], None], on_restart: Callable[[], None]
    ) -> None:
        self._settings, self._on_batch, self._on_restart = settings, on_batch, on_restart
        self._numbers = itertools.count()
        self._workers = [_Worker(settings, self) for _ in range(settings.workers)]
        self._changed = asyncio.Event()  # set when a worker becomes ready or fails
        self.info: dict[str, Any] | None = None  # of the first one that was ready
        self.fault: str | None = None  # why the first start failed
        self.is_closing = False

    def start(self) -> None:
        """Start the processes; returns before they are ready."""
        for worker in self._workers:
            worker.start()

    @property
    def n_ready(self) -> int:
        """Processes that are loaded and warm."""
        return sum(worker.is_ready for worker in self._workers)

    async def wait_until_ready(self, timeout: float | None = None) -> dict[str, Any]:
        """The result of `info` once a process is ready; 503 if none is ready in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self.info is None and self.fault is None:
                    await self._changed.wait()
        if self.info is None:
            raise unavailable(self.fault or "the model is being loaded; try again")
        return self.info

    async def ask(self, call: str, argument: dict[str, Any], tokens: int, receive: Receive) -> Any:
        """Result of a call, which is dropped at the deadline or when the client disconnects.

        receive: ASGI channel of the request, which reports the disconnection; the body has been read already.
        """
        deadline = time.monotonic() + self._settings.timeout
        await self.wait_until_ready(self._settings.timeout)
        ready = [worker for worker in self._workers if worker.is_ready]
        if not ready:
            raise unavailable("the engine is being restarted; try again")
        worker = min(ready, key=lambda one: one.tokens)
        job = Job(next(self._numbers), call, argument, tokens)
        future = worker.submit(job)
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            left = max(0.0, deadline - time.monotonic())
            done, _ = await asyncio.wait({future, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not future.done():
                worker.cancel(job)
        if future in done:
            return future.result()
        if gone in done:
            raise ApiError(CLIENT_GONE, "Gone", "the client has disconnected")
        raise unavailable(f"no answer within {self._settings.timeout:g} s; try again later, or send less at a time")

    async def close(self) -> None:
        """End the processes; those that do not end by themselves are killed."""
        self.is_closing = True
        await asyncio.gather(*(asyncio.to_thread(worker.close) for worker in self._workers))

    def _handle(self, worker: _Worker, message: object) -> None:
        """A message of a worker, on the event loop."""
        if isinstance(message, Answer):
            worker.resolve(message)
        elif isinstance(message, BatchDone):
            self._on_batch(message)
        elif isinstance(message, Ready):
            worker.is_ready = True
            self.info = self.info or message.info
            self._changed.set()
        elif isinstance(message, Failed):
            if self.info is None:
                self.fault = message.message
                self._changed.set()
            else:
                log.warning("an engine process could not be started again: %s", message.message)

    def _lost(self, worker: _Worker) -> None:
        """A worker ended."""
        worker.fail_all()
        if not self.is_closing and self.fault is None:
            self._on_restart()
            asyncio.get_running_loop().call_later(worker.pause(), worker.start_again)


class _Worker:
    """One process, with a thread that writes to it and one that reads from it."""

    def __init__(self, settings: ServeSettings, pool: EnginePool) -> None:
        self._settings, self._pool = settings, pool
        self._pending: dict[int, tuple[Job, asyncio.Future[Any]]] = {}
        self._pause, self._started = 1.0, 0.0
        self.is_ready = False
        self.tokens = 0  # of jobs that it has not answered

    def start(self) -> None:
        """Start the process, from the event loop."""
        context = get_context("spawn")  # torch's threads do not survive a fork
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=run_engine, args=(theirs, self._settings), daemon=True)
        self._process.start()
        theirs.close()
        self._started = time.monotonic()
        self._outgoing: queue.SimpleQueue[Job | Cancel | None] = queue.SimpleQueue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_write, args=(self._connection, self._outgoing), daemon=True).start()
        threading.Thread(target=self._read, args=(loop, self._connection), daemon=True).start()

    def start_again(self) -> None:
        """Replace the process, unless the server is ending."""
        if not self._pool.is_closing:
            self._process.kill()  # it closed its connection; whatever it still does is of no use
            self._process.join()
            self.start()

    def pause(self) -> float:
        """Seconds to wait before the next start: longer each time, if it ended soon after it started."""
        self._pause = 1.0 if time.monotonic() - self._started > _STEADY else min(2 * self._pause, _LONGEST_PAUSE)
        return self._pause

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Send a job."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[job.number] = (job, future)
        self.tokens += job.tokens
        self._outgoing.put(job)
        return future

    def cancel(self, job: Job) -> None:
        """Forget a job."""
        if self._pending.pop(job.number, None) is not None:
            self.tokens -= job.tokens
            self._outgoing.put(Cancel(job.number))

    def resolve(self, answer: Answer) -> None:
        """An answer came; it may be to a job that was canceled too late."""
        job, future = self._pending.pop(answer.number, (None, None))
        if job is None or future is None:
            return
        self.tokens -= job.tokens
        if future.done():
            return
        if answer.kind == "value":
            future.set_result(answer.value)
        else:
            future.set_exception((refused if answer.kind == "refused" else engine_failed)(answer.value))

    def fail_all(self) -> None:
        """The process ended: nothing that it had will be answered."""
        self.is_ready, self.tokens = False, 0
        self._outgoing.put(None)
        pending, self._pending = self._pending, {}
        for _, future in pending.values():
            if not future.done():
                future.set_exception(engine_failed(_STOPPED))

    def close(self) -> None:
        """End the process, which ends by itself when asked to."""
        self._outgoing.put(None)
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _read(self, loop: asyncio.AbstractEventLoop, connection: Connection) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            try:
                while True:
                    loop.call_soon_threadsafe(self._pool._handle, self, receive(connection))
            except (EOFError, OSError):
                loop.call_soon_threadsafe(self._pool._lost, self)


def _write(connection: Connection, outgoing: queue.SimpleQueue[Job | Cancel | None]) -> None:
    """Jobs go through a thread, since a full pipe must not stop the event loop."""
    with suppress(OSError):
        while True:
            send(connection, message := outgoing.get())
            if message is None:
                return


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
