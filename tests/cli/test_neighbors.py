"""`elmo index`, `neighbors`, `compare`, `polysemy` and `static` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import models
import numpy as np
import pytest
from typer.testing import CliRunner

from elmokit.analysis.shared.results import read_results
from elmokit.cli import app
from elmokit.embed.elmo import Elmo

LINES = ["The cat sat .", "", "a play began", "The play was long .", "Play it again", "the cat sat on a mat"]
SENTENCE = "The actor was praised in the play ."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(models.write_variant(tmp_path_factory.mktemp("model"), "usual")[0])


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("\n".join(LINES) + "\n")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2 and result.stdout == "" and result.stderr.count("\n") == 1, result.output
    return result.stderr


def test_an_index_is_built_and_searched(model: str) -> None:
    run("index", "build", "--corpus", "corpus.txt", "-o", "index", "--model", model, "--layer", "1")
    shown = run("index", "search", "index", SENTENCE, "--word", "play", "-k", "2")
    lines = shown.splitlines()
    assert lines[0] == "The actor was praised in the **play** ."
    assert lines[1] == "'play' occurs 3 times among 21 tokens of 5 sentences"
    assert lines[3] == "layer 1" and len(lines) == 6 and "**" in lines[4]
    stored = json.loads(run("index", "search", "index", SENTENCE, "--word", "play", "-k", "3", "--json"))
    scan = ["neighbors", "--corpus", "corpus.txt", "--model", model, "--layer", "1", SENTENCE, "--word", "play"]
    scanned = json.loads(run(*scan, "-k", "3", "--json"))
    assert [near["word"] for near in stored["neighbors"]["layer 1"]] == [
        near["word"] for near in scanned["neighbors"]["layer 1"]
    ]
    by_flag = run("neighbors", "--index", "index", SENTENCE, "--word", "play", "-k", "3", "--json")
    assert json.loads(by_flag) == stored


def test_the_same_word_in_all_layers_with_results(model: str) -> None:
    arguments = ["--corpus", "corpus.txt", "--model", model, SENTENCE, "--word", "play", "--same-word"]
    shown = run("neighbors", *arguments, "--layers", "all", "-o", "out.json")
    results = read_results("out.json")
    assert results.kind == "neighbors" and results.data[0].path == "corpus.txt" and results.model is not None
    blocks = results.numbers["neighbors"]
    assert list(blocks) == ["layer 0", "layer 1", "layer 2", "average"]
    for nearest in blocks.values():
        assert sorted(near["word"] for near in nearest) == ["Play", "play", "play"]
    assert shown.count("**play**") == 1 + 4 * 2


def test_static_neighbors_stand_beside(model: str) -> None:
    Path("glove.txt").write_text("play 1 0\ngame 0.9 0.1\ncat 0 1\n")
    shown = run(
        "neighbors", "--corpus", "corpus.txt", "--model", model, SENTENCE, "--word", "play", "--vectors", "glove.txt"
    )
    assert shown.splitlines()[-3:] == ["static, in any sentence: glove.txt", "  0.994  game", "  0.000  cat"]


def test_bad_questions(model: str, tmp_path: Path) -> None:
    common = ["neighbors", "--corpus", "corpus.txt", "--model", model]
    assert "its tokens: The actor was praised in the play ." in fails(*common, SENTENCE, "--word", "plays")
    assert "expected 'dog' in the corpus, found none" in fails(*common, "a dog", "--word", "dog", "--same-word")
    assert "expected --corpus or --index" in fails("neighbors", SENTENCE, "--word", "play")
    assert "found both" in fails(*common, "--index", "index", SENTENCE, "--word", "play")
    assert "made by `elmo index build`" in fails("index", "search", "no", SENTENCE, "--word", "play")
    assert "no.txt" in fails("neighbors", "--corpus", "no.txt", SENTENCE, "--word", "play", "--model", model)
    run("index", "build", "--corpus", "corpus.txt", "-o", "index", "--model", model)
    other = str(models.write_variant(tmp_path / "other", "usual", seed=1)[0])
    assert "is of another model" in fails("index", "search", "index", SENTENCE, "--word", "play", "--model", other)
    assert "is an index of average" in fails(
        "neighbors", "--index", "index", "--layer", "0", "a play", "--word", "play"
    )
    assert "--layer: expected" in fails("index", "build", "--corpus", "corpus.txt", "-o", "new", "--layer", "1,2")


def test_compare_against_numpy(model: str) -> None:
    first, second = "I will buy you a present", "Live in the present , not the past"
    shown = run("compare", first, second, "--word", "present", "--model", model, "-o", "map.png", "-o", "out.json")
    a, b = Elmo.from_pretrained(model).embed([first, second])
    lines = shown.splitlines()
    assert lines[0] == "I will buy you a **present**"
    for j, line in enumerate(lines[2:5]):
        u, v = a.layers[j, 5], b.layers[j, 3]
        assert line == f"layer {j}  {u @ v / np.linalg.norm(u) / np.linalg.norm(v):6.3f}"
    u, v = a.vectors[5], b.vectors[3]
    assert lines[5] == f"average  {u @ v / np.linalg.norm(u) / np.linalg.norm(v):6.3f}"
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")
    assert np.array(read_results("out.json").numbers["pairs"]["average"]).shape == (6, 8)
    Path("glove.txt").write_text("present 1 0\nlive 1 1\n")
    with_static = run("compare", first, second, "--word", "present", "--word", "Live", "--vectors", "glove.txt")
    assert with_static.splitlines()[-1] == "static    0.707"
    assert "expected a picture's name" in fails("compare", "a b", "b c", "--word", "b", "-o", "map.doc")
    assert "map.png: exists already; use --overwrite" in fails("compare", first, second, "--word", "b", "-o", "map.png")
    one_layer = ["compare", "a b", "b c", "--word", "b", "-o", "map.png", "--overwrite", "--layer", "2-1"]
    assert "--layer: expected average, top or the number of one layer" in fails(*one_layer)


def test_half_a_character_is_shown_as_its_code(model: str) -> None:
    triple = {"word": "\ud83d", "sense": "a", "other_sense": "b", "same": ["\ud83d a", "b \ud83d"], "other": "c \ud83d"}
    Path("triples.json").write_text(json.dumps([triple]))
    shown = run("polysemy", "--model", model, "--triples", "triples.json", "-o", "out.json")
    assert shown.splitlines()[1].startswith("\\ud83d ")
    assert read_results("out.json").numbers["triples"][0]["word"] == "\ud83d"
    as_json = run("polysemy", "--model", model, "--triples", "triples.json", "--json")
    assert json.loads(as_json)["triples"][0]["word"] == "\ud83d"
    Path("triples.json").write_text("[" * 100_000)
    assert "expected a JSON list" in fails("polysemy", "--model", model, "--triples", "triples.json")


def test_static_vectors_are_read_before_the_corpus(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in them should not cost the hours that a large corpus takes."""
    monkeypatch.setattr("elmokit.analysis.search.neighbors.scan", lambda *_, **__: pytest.fail("too late"))
    Path("v.txt").write_text("cat 1 2\n")
    query = ["neighbors", "--corpus", "corpus.txt", "--model", model, SENTENCE, "--word", "play"]
    assert "v.txt: expected a word that has a vector, found 'play'" in fails(*query, "--vectors", "v.txt")


def test_polysemy_prints_its_table(model: str) -> None:
    shown = run("polysemy", "--model", model, "-o", "out.json").splitlines()
    numbers = read_results("out.json").numbers
    assert len(shown) == len(numbers["triples"]) + 3
    assert shown[0].split() == ["average", "layer", "0", "layer", "1", "layer", "2"]
    assert numbers["right"]["layer 0"] == 0
    for key, row in (("right", shown[-2]), ("right_by_distance", shown[-1])):
        for name, count in numbers[key].items():
            assert count == sum(triple["views"][name][key] for triple in numbers["triples"])
            assert f"{count} of {len(numbers['triples'])}" in row
    word, first = shown[1].split(), numbers["triples"][0]["views"]["average"]
    signs = ("+" if first[key] else "-" for key in ("right", "right_by_distance"))
    assert word[0] == "present" and word[4] == "".join(signs)
    assert json.loads(run("polysemy", "--model", model, "--json")) == numbers


def test_static_commands() -> None:
    Path("long.txt").write_text("the King and the queen and the man\n" * 20)
    run("static", "train", "--corpus", "long.txt", "-o", "v.txt", "--dim", "4", "--epochs", "1", "--lowercase")
    again = ["static", "train", "--corpus", "long.txt", "--dim", "4", "--epochs", "1"]
    assert "v.txt: exists already" in fails(*again, "-o", "v.txt")
    assert "long.txt: is the corpus" in fails(*again, "-o", "long.txt", "--overwrite")
    run(*again, "-o", "v.txt", "--overwrite", "--lowercase")
    assert Path("v.txt").read_text().startswith("5 4\nthe ")
    near = run("static", "neighbors", "v.txt", "king", "-k", "2").splitlines()
    assert len(near) == 2 and near[0].split()[1] in {"the", "queen", "and", "man"}
    found = json.loads(run("static", "analogy", "v.txt", "king", "man", "queen", "--json"))
    assert {one["word"] for one in found} == {"the", "and"}
    assert "similar words: king" in fails("static", "neighbors", "v.txt", "kings")
