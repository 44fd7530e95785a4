"""Maps of a word: what is read, what is nearest, and what bad input is told."""

from __future__ import annotations

import json
from pathlib import Path

import models
import numpy as np
import pytest
from typer.testing import CliRunner

from elmokit import Elmo
from elmokit.analysis.senses import word_map
from elmokit.analysis.senses.word_map import WordMap, draw_map, make_map, read_occurrences
from elmokit.analysis.shared.layers import View
from elmokit.analysis.shared.occurrence import Occurrence
from elmokit.cli import app
from elmokit.errors import InputError
from elmokit.text.tokenizer import spaces, words

LINES = [
    "# word, sense, sentence",
    "bank\tmoney\tThe bank lent us money .",
    "bank\triver\tWe sat on the Bank of the river .",
    "bank\tmoney\tA bank failed , and then another bank .",
    "bank\tmoney\tTwo bankers met .",
    "play\tdrama\tThe play ended .",
    "letter\tmail\tThe bank sent a letter .",
]


def test_occurrences_and_their_senses() -> None:
    found = read_occurrences(LINES, "bank", spaces)
    assert [(sense, one.position) for sense, one in found] == [("money", 1), ("river", 4), ("money", 1)]
    plain = read_occurrences(["a bank .", "the bank?", "Bank"], "bank", words)
    assert [(sense, one.word) for sense, one in plain] == [(None, "bank"), (None, "bank"), (None, "Bank")]


def test_too_few_and_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^corpus: expected 3 sentences or more with 'play', found 1"):
        read_occurrences(LINES, "play", spaces)
    monkeypatch.setattr(word_map, "MOST", 3)
    assert len(read_occurrences(["a bank"] * 10, "bank", spaces)) == 3


def test_nearest_occurrences_and_chance() -> None:
    places = [Occurrence(("a",), 0)] * 4
    found = WordMap("a", "average", places, ["x", "x", "x", "y"], np.zeros((4, 2)), [1, 0, 3, 0])
    assert found.same_sense == 2 and found.by_chance == pytest.approx(3 * 2 / 3)
    unknown = WordMap("a", "average", places, ["x", "x", None, "y"], np.zeros((4, 2)), [1, 0, 3, 0])
    assert unknown.same_sense is None and unknown.by_chance is None
    assert len(draw_map(unknown.to_json()).axes[0].collections) == 3  # two senses, and none given


def test_the_map_is_that_of_the_vectors(tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(models.write_variant(tmp_path / "model", "usual")[0])
    occurrences = read_occurrences(LINES, "bank", spaces)
    drawn = make_map(elmo, "bank", occurrences, View("layer 2", 2))
    embedded = elmo.embed([list(one.tokens) for _, one in occurrences])
    vectors = np.stack([s.layers[2, one.position] for s, (_, one) in zip(embedded, occurrences, strict=True)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T - 2 * np.eye(3)
    assert drawn.nearest == cosines.argmax(axis=1).tolist()
    distances = np.linalg.norm(drawn.points[:, None] - drawn.points[None], axis=-1)
    assert np.allclose(distances, np.linalg.norm(vectors[:, None] - vectors[None], axis=-1), atol=1e-5)  # of 3 points


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    models.write_variant(tmp_path / "model", "usual")
    Path("corpus.tsv").write_text("\n".join(LINES))
    arguments = ["map", "bank", "--corpus", "corpus.tsv", "--model", "model", "--layer", "2"]
    result = CliRunner().invoke(app, [*arguments, "-o", "bank.svg", "-o", "bank.json"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "money: The **bank** lent us money ." and lines[1].startswith("    nearest: ")
    assert " of 3 have the sense of their nearest occurrence; by chance it would be 1" in lines[-1]
    assert b"<svg" in Path("bank.svg").read_bytes()
    stored = json.loads(Path("bank.json").read_text())
    assert stored["kind"] == "map" and len(stored["numbers"]["occurrences"]) == 3
    shown = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(shown.stdout) == stored["numbers"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", "1,2"], "--layer: expected average, top or the number of one layer"),
        (["--layer", "2-1"], "--layer: expected average, top or the number of one layer"),
        (["-o", "map.bmp"], "expected a picture's name"),
        (["--corpus", "missing.txt"], "missing.txt"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models.write_variant(tmp_path / "model", "usual")
    Path("corpus.tsv").write_text("\n".join(LINES))
    result = CliRunner().invoke(app, ["map", "bank", "--corpus", "corpus.tsv", "--model", "model", *arguments])
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1
