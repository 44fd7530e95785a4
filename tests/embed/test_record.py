"""Records of sentences in files of vectors."""

from __future__ import annotations

import numpy as np

from elmokit.embed.record import Record, RecordLayout


def test_facts_are_those_that_are_known() -> None:
    vectors = np.zeros((2, 4), np.float32)
    assert Record("a b", ["a", "b"], None, vectors).facts() == {"tokens": ["a", "b"]}
    whole = Record("a b", ["a", "b"], [(0, 1), (2, 3)], vectors, line=7)
    assert whole.facts() == {"tokens": ["a", "b"], "offsets": [(0, 1), (2, 3)], "line": 7}


def test_a_record_is_shown_without_its_vectors() -> None:
    assert "vectors" not in repr(Record("a", ["a"], None, np.zeros((1000, 4), np.float32)))


def test_layouts_compare_by_value() -> None:
    assert RecordLayout(4, None) == RecordLayout(4, None, pooled=False, dtype="float32")
    assert RecordLayout(4, None) != RecordLayout(4, 3)
