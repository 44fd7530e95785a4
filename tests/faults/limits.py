"""Work in a fork with limits on memory and time, and how it ended."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal

from elmokit.errors import ElmoError

MEMORY = 4 * 2**30  # bytes of address space beyond what the parent has
SECONDS = 10  # of CPU time. Not of wall time: beside other work on the machine, ten seconds of CPU time take any time
WAITING = 6 * SECONDS  # of wall time, for work that waits forever, as for a lock or a pipe, and so uses no CPU time
LONGEST_MESSAGE = 750  # characters, of one line
_PER_FORK = 50  # pieces of work, so that a leak of some of them does not add up to the limit
_SIZE = struct.Struct("<Q")


@dataclass(frozen=True)
class Outcome:
    """How a piece of work ended."""

    kind: Literal["result", "refused", "traceback", "crash", "hang", "memory"]
    value: Any  # the result, or the message
    seconds: float = 0.0


def limited(work: Callable[[], Any], memory: int = MEMORY) -> Outcome:
    """Do the work in a fork. Any ElmoError is "refused", any other exception a "traceback"."""
    return next(limited_each(1, lambda _: work(), memory))


def limited_each(count: int, work: Callable[[int], Any], memory: int = MEMORY) -> Iterator[Outcome]:
    """Do work(0), work(1), ... in a fork, each within the limits; after a crash a new fork continues."""
    number = 0
    while number < count:
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(ours)
                with os.fdopen(theirs, "wb") as file:
                    _work(range(number, min(count, number + _PER_FORK)), work, file, memory)
            finally:
                os._exit(0)
        os.close(theirs)
        stop = min(count, number + _PER_FORK)
        with os.fdopen(ours, "rb") as pipe:
            while number < stop and (outcome := _received(pipe)) is not None:
                number += 1
                yield outcome
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if number < stop:
            number += 1
            hangs = status in (-signal.SIGXCPU, -signal.SIGALRM)
            yield Outcome("hang" if hangs else "crash", f"status {status}", WAITING)


def _work(numbers: range, work: Callable[[int], Any], file: IO[bytes], memory: int) -> None:
    import resource  # of POSIX systems; elsewhere these tests are skipped

    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + SECONDS, resource.RLIM_INFINITY))
        signal.alarm(WAITING)
        content = pickle.dumps(_outcome(lambda number=number: work(number)))  # type: ignore[misc]
        file.write(_SIZE.pack(len(content)) + content)
        file.flush()


def _received(pipe: IO[bytes]) -> Outcome | None:
    header = pipe.read(_SIZE.size)
    if len(header) < _SIZE.size:
        return None
    outcome: Outcome = pickle.loads(pipe.read(*_SIZE.unpack(header)))
    return outcome


def _outcome(work: Callable[[], Any]) -> Outcome:
    started = time.process_time()
    try:
        outcome = Outcome("result", work())
    except ElmoError as error:
        message = str(error)
        outcome = Outcome("refused", message)
        if "\n" in message or len(message) > LONGEST_MESSAGE:
            outcome = Outcome("traceback", f"a message of more than one short line: {message[:100]!r}")
    except MemoryError:
        outcome = Outcome("memory", traceback.format_exc()[-1500:])
    except BaseException as error:
        full = isinstance(error, RuntimeError) and any(text in str(error) for text in ("allocate", "out of memory"))
        outcome = Outcome("memory" if full else "traceback", traceback.format_exc()[-1500:])
    seconds = time.process_time() - started
    if seconds > SECONDS:  # the limit of the system is in whole seconds
        outcome = Outcome("hang", f"{seconds:.1f} s of CPU time")
    with contextlib.suppress(Exception):
        pickle.dumps(outcome)
        return Outcome(outcome.kind, outcome.value, seconds)
    return Outcome(outcome.kind, repr(outcome.value)[:1000], seconds)
