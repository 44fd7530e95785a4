"""The engine in a process of its own: reads jobs, computes them in batches, and ends with the server."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from elmokit.errors import ElmoError
from elmokit.serve.batching import EMBED, Answer, BatchDone, Cancel, Failed, Job, Ready, Waiting
from elmokit.serve.settings import ServeSettings
from elmokit.serve.wire import receive, send

if TYPE_CHECKING:
    from elmokit.serve.engine_calls import EngineCalls


def run_engine(connection: Connection, settings: ServeSettings) -> None:
    """Main loop of an engine process. It ends when the other end of the connection closes, however the server ended."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group: the server finishes first, then closes
        signal.signal(number, signal.SIG_IGN)
    from elmokit.serve.engine_calls import EngineCalls  # here alone: the server itself needs no torch

    waiting = Waiting()
    threading.Thread(target=_receive, args=(connection, waiting), daemon=True).start()
    try:
        calls = EngineCalls(settings)
        calls.warm_up()
    except Exception as error:
        if not isinstance(error, (ElmoError, OSError)):
            traceback.print_exc(file=sys.stderr)
        send(connection, Failed(str(error) or type(error).__name__))
        return
    send(connection, Ready(calls.info()))
    outgoing: queue.SimpleQueue[Answer | BatchDone] = queue.SimpleQueue()
    threading.Thread(target=_send, args=(connection, outgoing), daemon=True).start()
    while True:
        _compute(waiting.take(settings.batch_tokens), calls, outgoing)


def _receive(connection: Connection, waiting: Waiting) -> None:
    while True:
        try:
            message = receive(connection)
        except (EOFError, OSError):
            message = None
        if message is None:  # the server ends, or is gone: even in the middle of a batch there is nobody to answer
            os._exit(0)
        if isinstance(message, Cancel):
            waiting.cancel(message.number)
        else:
            waiting.add(message)


def _send(connection: Connection, outgoing: queue.SimpleQueue[Answer | BatchDone]) -> None:
    """Answers go through a thread: while they are written, the next batch computes."""
    with suppress(OSError):  # the server is gone, and `_receive` ends the process
        while True:
            send(connection, outgoing.get())


def _compute(batch: list[Job], calls: EngineCalls, outgoing: queue.SimpleQueue[Answer | BatchDone]) -> None:
    start = time.perf_counter()
    answers = _answers(batch, calls)
    seconds = time.perf_counter() - start
    for answer in answers:
        outgoing.put(answer)
    if batch[0].call == EMBED:
        sentences = sum(len(job.argument["sentences"]) for job in batch)
        outgoing.put(BatchDone(len(batch), sentences, sum(job.tokens for job in batch), seconds))


def _answers(batch: list[Job], calls: EngineCalls) -> list[Answer]:
    try:
        if batch[0].call == EMBED:
            values = calls.embed([job.argument for job in batch])
        else:
            values = [calls.call(batch[0].call, batch[0].argument)]
    except Exception as error:
        if len(batch) > 1:  # computed one by one, so that only the job at fault fails
            return [answer for job in batch for answer in _answers([job], calls)]
        if isinstance(error, ElmoError):
            return [Answer(batch[0].number, "refused", str(error).removeprefix("--"))]
        traceback.print_exc(file=sys.stderr)
        return [Answer(batch[0].number, "failed", "the engine could not compute this request")]
    return [Answer(job.number, "value", value) for job, value in zip(batch, values, strict=True)]
