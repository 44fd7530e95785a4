"""Work done ahead of time in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterable[Item], n: int = 4) -> Iterator[Item]:
    """The same items, up to `n` of them made ahead in a thread, so that a training step need not wait for its text.

    An error among the items is raised where it would have been without the thread. The thread ends with the iterator:
    at its last item, when it is closed, or when it is garbage.
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

    thread = Thread(target=make, name="elmokit-ahead", daemon=True)
    thread.start()
    try:
        while (item := made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        stop.set()
        try:
            while True:  # make room, should the thread be waiting for it
                made.get_nowait()
        except Empty:
            thread.join()
