"""Dynamic batching without a timer: what arrives while one batch computes is the next batch."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any, Literal

EMBED = "embed"  # the call whose jobs are computed together


@dataclass(frozen=True)
class Job:
    """One call for an engine."""

    number: int
    call: str
    argument: dict[str, Any]
    tokens: int  # its cost


@dataclass(frozen=True)
class Cancel:
    """Drop a job whose client is gone or whose deadline has passed."""

    number: int


@dataclass(frozen=True)
class Ready:
    """The engine is loaded and warm."""

    info: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """The engine cannot be loaded."""

    message: str


@dataclass(frozen=True)
class Answer:
    """Outcome of a job: a value; an error of the input (`refused`); or one of the engine (`failed`)."""

    number: int
    kind: Literal["value", "refused", "failed"]
    value: Any


@dataclass(frozen=True)
class BatchDone:
    """A batch was computed."""

    requests: int
    sentences: int
    tokens: int
    seconds: float


class Waiting:
    """Jobs in the order in which they came; filled by one thread, emptied by another."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        """A job arrived."""
        with self._changed:
            self._jobs[job.number] = job
            self._changed.notify()

    def cancel(self, number: int) -> None:
        """Drop a job, if it still waits."""
        with self._changed:
            self._jobs.pop(number, None)

    def take(self, batch_tokens: int) -> list[Job]:
        """The next batch; waits for a job if there is none.

        The oldest job is always part of it. Embedding jobs are joined by all others that fit, in their order; a larger
        one that does not fit keeps its place at the front, so that no job starves. Jobs that do not fit into one batch
        are divided into batches of similar size: a full batch and a tiny one take longer than two medium ones.
        """
        with self._changed:
            while not self._jobs:
                self._changed.wait()
            jobs = iter(list(self._jobs.values()))
            batch = [next(jobs)]
            if batch[0].call == EMBED:
                room = self._room(batch_tokens) - batch[0].tokens
                for job in jobs:
                    if job.call == EMBED and job.tokens <= room:
                        batch.append(job)
                        room -= job.tokens
            for job in batch:
                del self._jobs[job.number]
            return batch

    def _room(self, batch_tokens: int) -> int:
        total = sum(job.tokens for job in self._jobs.values() if job.call == EMBED)
        n_batches = max(1, math.ceil(total / batch_tokens))
        return min(batch_tokens, math.ceil(1.1 * total / n_batches))  # jobs differ in size, so a little more
