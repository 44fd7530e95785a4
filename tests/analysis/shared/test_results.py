"""Results files: small, complete, and never in the place of something else."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import models
import pytest

from elmokit.analysis.shared.results import (
    FileFacts,
    ModelFacts,
    Results,
    check_target,
    command_line,
    file_facts,
    model_facts,
    read_results,
    write_results,
)
from elmokit.errors import FormatError, OutputError
from elmokit.weights import load

RESULTS = Results(
    "wsd", "elmo wsd --train a", ModelFacts("base", "ab" * 32), (FileFacts("a.xml", 3, "cd" * 32),), {"f1": 65.9}
)


def test_round_trip(tmp_path: Path) -> None:
    write_results(tmp_path / "r.json", RESULTS)
    found = read_results(tmp_path / "r.json")
    assert found.versions is not None and found.versions.keys() == {"python", "torch", "numpy"} and found.machine
    assert replace(found, versions=None, machine=None) == RESULTS
    facts = json.loads((tmp_path / "r.json").read_text())
    assert list(facts)[:6] == ["format", "kind", "command", "model", "data", "numbers"]
    assert {"version", "versions", "machine"} <= facts.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_results_without_a_model(tmp_path: Path) -> None:
    results = Results("static", "elmo static", None, (), {})
    write_results(tmp_path / "r.json", results)
    assert replace(read_results(tmp_path / "r.json"), versions=None, machine=None) == results


def test_newer_results_replace_older_ones(tmp_path: Path) -> None:
    write_results(tmp_path / "r.json", RESULTS)
    newer = Results("probe", "elmo probe", None, (), {"accuracy": 1})
    with pytest.raises(OutputError, match="exists already; use overwrite=True"):
        write_results(tmp_path / "r.json", newer)
    write_results(tmp_path / "r.json", newer, overwrite=True)
    assert read_results(tmp_path / "r.json").numbers == {"accuracy": 1}


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "elmokit results"}', "\0", "[" * 100_000])
def test_other_files_are_not_read_and_not_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(FormatError, match=r"r\.json: expected (a results file of elmokit|JSON|'kind'), found"):
        read_results(tmp_path / "r.json")
    with pytest.raises(OutputError, match="exists already; use overwrite=True"):
        write_results(tmp_path / "r.json", RESULTS)
    assert (tmp_path / "r.json").read_text() == content


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="expected a file in a folder that exists"):
        check_target(tmp_path / "no" / "r.json")
    with pytest.raises(OutputError, match="found a folder"):
        check_target(tmp_path)
    with pytest.raises(FormatError, match="expected a file, found nothing there"):
        read_results(tmp_path / "r.json")


def test_numbers_that_json_does_not_have_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_results(tmp_path / "r.json", Results("wsd", "", None, (), {"f1": float("nan")}))
    assert not list(tmp_path.iterdir())


def test_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (fact,) = file_facts([tmp_path / "a"])
    assert fact == FileFacts(str(tmp_path / "a"), 3, hashlib.sha256(b"abc").hexdigest())
    folder, _, _ = models.write_variant(tmp_path / "small", "usual")
    model = load(folder)
    assert model_facts(model) == ModelFacts("small", model.fingerprint)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/elmo", "wsd", "--train", "my file.xml"])
    assert command_line() == "elmo wsd --train 'my file.xml'"
