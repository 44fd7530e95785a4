"""What goes into a batch."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from elmokit.serve.batching import EMBED, Job, Waiting


def jobs(sizes: list[tuple[bool, int]]) -> list[Job]:
    return [Job(k, EMBED if embeds else "task", {}, tokens) for k, (embeds, tokens) in enumerate(sizes)]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=30), st.integers(1, 30), st.sets(st.integers(0, 29))
)
def test_every_job_once_and_the_oldest_first(sizes: list[tuple[bool, int]], room: int, gone: set[int]) -> None:
    waiting, every = Waiting(), jobs(sizes)
    for job in every:
        waiting.add(job)
    for number in gone:
        waiting.cancel(number)
    left = [job for job in every if job.number not in gone]
    while left:
        batch = waiting.take(room)
        assert batch[0] is left[0]  # so nobody waits for ever
        assert len(batch) == 1 or all(job.call == EMBED for job in batch)
        assert len(batch) == 1 or sum(job.tokens for job in batch) <= room
        assert [job.number for job in batch] == sorted(job.number for job in batch)
        left = [job for job in left if job not in batch]
    assert len(waiting) == 0


def test_no_tiny_batch_is_left_over() -> None:
    waiting = Waiting()
    for job in jobs([(True, 10)] * 12):
        waiting.add(job)
    assert [len(waiting.take(100)) for _ in range(2)] == [6, 6]


def test_what_arrives_meanwhile_is_the_next_batch() -> None:
    waiting = Waiting()
    batches: list[list[Job]] = []
    thread = threading.Thread(target=lambda: batches.append(waiting.take(100)))
    thread.start()
    first, *others = jobs([(True, 10)] * 5)
    waiting.add(first)  # taken at once: nobody waits for company
    thread.join(5)
    for job in others:
        waiting.add(job)
    assert batches == [[first]] and waiting.take(100) == others
