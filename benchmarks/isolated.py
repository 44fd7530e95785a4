"""Isolated contenders: each in its own process, one running at a time.

In one process they would share an allocator and threads, and the later ones would profit from the earlier ones' memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

Worker = Callable[[Any], Any]

PAUSE = 0.2  # seconds before each turn: threads of the contender before it go on spinning for a while


@contextmanager
def contender(make: Callable[..., Worker], *arguments: Any) -> Iterator[Worker]:
    """Proxy of the object that `make(*arguments)` returns in a new process; calls and answers are pickled."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
    process.start()
    theirs.close()  # or nobody would notice that the process has died

    def ask(order: Any) -> Any:
        time.sleep(PAUSE)
        ours.send(order)
        return ours.recv()

    yield ask
    ours.close()
    process.join()


def _serve(orders: Connection, make: Callable[..., Worker], arguments: tuple[Any, ...]) -> None:
    work = make(*arguments)
    while True:
        try:
            order = orders.recv()
        except EOFError:
            return
        orders.send(work(order))
