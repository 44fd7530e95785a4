"""Prefetching in a background thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterable[Item], n: int = 4) -> Iterator[Item]:
    """Yield the same items, with up to `n` of them computed in advance in a thread, so that training does not wait.

    An exception is raised at the same item as without the thread. The thread ends with the iterator: at its last item,
    when it is closed, or when it is garbage-collected.
    """
    made: Queue[tuple[Item] | BaseException | None] = Queue(maxsize=n)
    stop = Event()

    def make() -> None:
        try:
            for item in items:
                made.put((item,))
                if stop.is_set():
                    return
            made.put(None)
        except BaseException as error:
            made.put(error)

    thread = Thread(target=make, name="elmokit-prefetch", daemon=True)
    thread.start()
    try:
        while (item := made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        stop.set()
        try:
            while True:  # unblock the thread if the queue is full
                made.get_nowait()
        except Empty:
            thread.join()
