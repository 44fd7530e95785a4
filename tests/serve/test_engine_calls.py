"""Calls of an engine process, without a server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import small_taggers

pytest.importorskip("fastapi", reason="needs the extra serve")
from elmokit.analysis.search.sentence_store import SentenceStore, SentenceWriter
from elmokit.serve import settings as serve_settings
from elmokit.serve.engine_calls import EngineCalls
from elmokit.serve.settings import ServeSettings, served_tasks


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


def test_taggers_of_the_served_model_share_it(tmp_path: Path) -> None:
    runs = {name: small_taggers.train(tmp_path, name, epochs=1) for name in ("ner", "pos")}
    calls = EngineCalls(ServeSettings(model=str(tmp_path / "bilm"), tasks=runs))
    assert all(run.bilm is not None and run.bilm.frozen is calls.elmo for run in calls.tasks.values())
    [answer] = calls.task("pos", ["She sees chess ."])
    quantized = EngineCalls(ServeSettings(model=str(tmp_path / "bilm"), tasks=runs, dtype="int8"))
    bilm = quantized.tasks["pos"].bilm
    assert bilm is not None and bilm.frozen is not None and bilm.frozen.dtype == "float32"
    assert len({id(run.bilm.frozen) for run in quantized.tasks.values() if run.bilm is not None}) == 1
    assert quantized.task("pos", ["She sees chess ."]) == [answer]


def test_the_packaged_taggers_are_served_with_the_packaged_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_settings, "packaged_taggers", lambda: {"ner": Path("packaged/ner")})
    assert served_tasks([], None) == {"ner": Path("packaged/ner")}
    assert served_tasks(["runs/ner", "x=runs/pos"], None) == {"ner": Path("runs/ner"), "x": Path("runs/pos")}
    assert served_tasks([], "base") == {"ner": Path("packaged/ner")}
    assert served_tasks(["runs/pos"], "other") == {"pos": Path("runs/pos")}
