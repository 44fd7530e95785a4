"""Processes that are killed before a given file operation or after a given time, for tests of what is left then."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
OPERATIONS = (
    "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.truncate", "os.chmod", "shutil.rmtree",
    "fcntl.flock",
)  # fmt: skip
_NEED_ROOM = ("os.rename", "os.mkdir", "os.link", "os.truncate")


def count_operations(work: Callable[[], object]) -> int:
    """Do the work in a fork, and count its changes of files."""
    ours, theirs = os.pipe()

    def counted() -> None:
        count = 0

        def add(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            count += _is_operation(event, arguments)

        sys.addaudithook(add)
        work()
        os.write(theirs, str(count).encode())

    status = _forked(counted, lambda: None)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        assert status == 0, f"the child ended with {status}"
        return int(pipe.read())


def killed_before(operation: int, work: Callable[[], object]) -> bool:
    """Do the work in a fork that is killed (-9) before its n-th change of files; False if it has fewer and succeeds."""

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    status = _forked(work, lambda: _hook(operation, kill, _is_operation))
    assert status in (0, -signal.SIGKILL), f"the child ended with {status}"
    return status == -signal.SIGKILL


def killed_after(seconds: float, work: Callable[[], object]) -> bool:
    """Do the work in a fork that is killed (-9) after a time; False if it succeeds before."""
    status = _forked(work, lambda: None, seconds)
    assert status in (0, -signal.SIGKILL), f"the child ended with {status}"
    return status == -signal.SIGKILL


def fails_without_room(operation: int) -> Callable[[], bool]:
    """From here on, the n-th operation of this process that needs room on the disk fails, as do all after it.

    Returns a function that says whether one has. It cannot be undone: use it in a fork.
    """
    has_failed = False

    def fail() -> None:
        nonlocal has_failed
        has_failed = True
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _hook(operation, fail, _needs_room, repeat=True)
    return lambda: has_failed


def _forked(work: Callable[[], object], prepare: Callable[[], None], seconds: float | None = None) -> int:
    child = os.fork()
    if child:
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)  # of one that has ended, nothing: it waits to be waited for
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        prepare()
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _hook(number: int, act: Callable[[], None], counts: Callable[..., bool], *, repeat: bool = False) -> None:
    count = 0

    def count_down(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if counts(event, arguments):
            count += 1
            if count == number + 1 or (repeat and count > number):
                act()

    sys.addaudithook(count_down)


def _is_operation(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open" and isinstance(arguments[2], int):
        # os.open has no mode: with it, files are synced, after which they are renamed by a call that is not audited
        return arguments[1] is None or bool(arguments[2] & WRITES)
    return event in OPERATIONS


def _needs_room(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open" and isinstance(arguments[2], int):
        return bool(arguments[2] & os.O_CREAT)
    return event in _NEED_ROOM
