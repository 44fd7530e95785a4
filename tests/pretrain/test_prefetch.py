"""Items made in a thread: the same ones, the same errors, and no thread left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from elmokit.errors import InputError
from elmokit.pretrain.prefetch import prefetch


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "elmokit-prefetch"]


@pytest.mark.parametrize("n", [1, 3, 100])
def test_the_same_items(n: int) -> None:
    assert list(prefetch(range(50), n)) == list(range(50))
    assert list(prefetch([None, None], n)) == [None, None]
    assert threads() == []


def test_an_error_comes_at_its_place() -> None:
    def two_and_an_error() -> Iterator[int]:
        yield from (1, 2)
        raise InputError("part-3.txt: gone")

    items = prefetch(two_and_an_error())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(InputError, match="gone"):
        next(items)
    assert threads() == []


@pytest.mark.parametrize("n", [1, 4])
def test_no_further_ahead_than_asked_and_gone_when_closed(n: int) -> None:
    made: list[int] = []
    waiting = threading.Event()

    def endless() -> Iterator[int]:
        while True:
            made.append(len(made))
            if len(made) > n + 1:
                waiting.set()
            yield len(made)

    items = prefetch(endless(), n)
    assert next(items) == 1 and threads()
    assert waiting.wait(5)
    assert len(made) <= n + 2  # one handed out, n in the queue, one in hand
    items.close()  # type: ignore[attr-defined]
    assert threads() == []


def test_the_program_ends_though_the_iterator_is_left_open() -> None:
    code = (
        "from itertools import count; from elmokit.pretrain.prefetch import prefetch; "
        "x = prefetch(count()); print(next(x))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert (result.stdout, result.stderr) == ("0\n", "")
