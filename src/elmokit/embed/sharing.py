"""Sharing a model between threads, and between a process and its forks."""

from __future__ import annotations

import os
import threading
from types import TracebackType

import torch

from elmokit.errors import ForkError

_threaded = False  # whether this process has computed with several threads
_lost_threads = False  # whether this process is the fork of one that had


def _after_fork() -> None:
    global _lost_threads
    _lost_threads = _lost_threads or _threaded


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def forked_from_threads() -> bool:
    """Whether this process was forked after its parent had computed with several threads; it must then use one."""
    return _lost_threads


def use_one_thread_in_fork() -> None:
    """Let a fork of a process that had computed with several threads compute with one; else change nothing.

    For a model that is loaded or unpickled there: even reading weights would hang, and an error while a
    `multiprocessing.Pool` unpickles its task ends the worker, but the pool waits for it.
    """
    if _lost_threads:
        torch.set_num_threads(1)


class EngineLock:
    """Reentrant lock around computation, which raises a ForkError in a process where computing would hang.

    OpenMP's threads do not survive a fork: the first matrix product that needs them would never return.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():  # a lock that another thread held at the fork is never released
            self._lock, self._process = threading.RLock(), os.getpid()
        self._lock.acquire()
        try:
            self._note_threads()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def _note_threads(self) -> None:
        global _threaded
        if torch.get_num_threads() == 1:
            return
        if _lost_threads:
            raise ForkError(
                "this process was forked after its parent had computed with several threads, which a fork lacks; start "
                "it with the method 'spawn' (multiprocessing.get_context), or call torch.set_num_threads(1) in it"
            )
        _threaded = True
