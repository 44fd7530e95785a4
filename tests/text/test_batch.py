"""Windows and batches against what they promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elmokit.text.batch import by_length, windows

lengths_lists = st.lists(st.integers(0, 30), max_size=40)


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(1, 20))
def test_windows_are_bounded_and_full(sizes: list[int], max_total: int) -> None:
    grouped = list(windows(iter(sizes), lambda size: size, max_total))
    assert [size for window in grouped for size in window] == sizes
    weights = [sum(max(1, size) for size in window) for window in grouped]
    assert all(window for window in grouped)
    for window, weight in zip(grouped, weights, strict=True):
        assert weight <= max_total or len(window) == 1
    for weight, following in zip(weights, grouped[1:], strict=False):
        assert weight + max(1, following[0]) > max_total  # no window closed early


def test_windows_read_no_further_than_they_must() -> None:
    stream = iter(range(100))
    first = next(windows(stream, lambda item: 1, 3))
    assert first == [0, 1, 2] and next(stream) == 4


@given(lengths_lists, st.integers(1, 60))
def test_batches_hold_every_sentence_once_longest_first(lengths: list[int], batch_tokens: int) -> None:
    batches = by_length(lengths, batch_tokens=batch_tokens)
    order = [index for batch in batches for index in batch.tolist()]
    assert order == sorted((i for i, n in enumerate(lengths) if n), key=lambda i: -lengths[i])  # `sorted` is stable
    totals = [sum(lengths[i] for i in batch) for batch in batches]
    assert all(total <= batch_tokens or len(batch) == 1 for total, batch in zip(totals, batches, strict=True))
    for total, following in zip(totals, batches[1:], strict=False):
        assert total + lengths[following[0]] > batch_tokens


def test_batches_worked_by_hand() -> None:
    batches = by_length([2, 0, 5, 9, 2, 1], batch_tokens=7)
    assert [batch.tolist() for batch in batches] == [[3], [2, 0], [4, 5]]
    assert by_length([], batch_tokens=7) == [] and by_length([0, 0], batch_tokens=7) == []


def test_batches_of_so_many_sentences() -> None:
    batches = by_length([2, 0, 5, 9, 2, 1], batch_tokens=1, batch_size=2)
    assert [batch.tolist() for batch in batches] == [[3, 2], [0, 4], [5]]
