"""Calls of an engine process that need no model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
from elmokit.analysis.search.sentence_store import SentenceStore, SentenceWriter
from elmokit.serve.engine_calls import EngineCalls


def test_occurrences_stop_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frequent word of a large corpus: no more sentences are built than are asked for, and none twice."""
    writer = SentenceWriter()
    for number in range(500):
        writer.add(["the", "play", str(number // 2)])  # each twice
    writer.write(tmp_path)
    store, built = SentenceStore(tmp_path), []
    occurrence = store.occurrence
    monkeypatch.setattr(store, "occurrence", lambda row: built.append(row) or occurrence(row))
    calls = EngineCalls.__new__(EngineCalls)
    calls.index = SimpleNamespace(sentences=store)  # type: ignore[assignment]
    found = calls.occurrences("Play", 3)
    assert [one["tokens"] for one in found] == [["the", "play", str(number)] for number in range(3)]
    assert len(built) <= 6
    assert len(calls.occurrences("play", 1000)) == 250 and calls.occurrences("nothing", 3) == []
