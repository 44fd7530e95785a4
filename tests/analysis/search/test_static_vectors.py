"""Static vectors: trained, loaded, and asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmokit.analysis.search.static_vectors import StaticVectors, load_static, train
from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
from elmokit.errors import ConfigError, FormatError, InputError, MissingExtraError, OutputError

# gender, royalty, number: an analogy that can be worked out by hand
WORDS = {"man": (1, 0, 0.1), "woman": (-1, 0, 0.1), "king": (1, 1, 0), "queen": (-1, 1, 0), "apple": (0, -1, 1)}


@pytest.fixture
def toy() -> StaticVectors:
    return StaticVectors("toy", list(WORDS), np.array(list(WORDS.values()), np.float32))


def test_analogy(toy: StaticVectors) -> None:
    best, *rest = toy.analogy("king", "man", "woman")
    unit = {word: np.array(vector) / np.linalg.norm(vector) for word, vector in WORDS.items()}
    target = unit["king"] - unit["man"] + unit["woman"]
    assert best.word == "queen"
    assert best.similarity == pytest.approx(unit["queen"] @ target / np.linalg.norm(target), abs=1e-6)
    assert {near.word for near in rest} == {"apple"}  # never the words of the question
    assert toy.analogy("king", "man", "woman", 1) == [best]


def test_neighbors(toy: StaticVectors) -> None:
    near = toy.neighbors("king", 2)
    assert [one.word for one in near] == ["man", "queen"]
    expected = [1 / np.sqrt(2) / np.sqrt(1.01), 0.0]
    assert [one.similarity for one in near] == pytest.approx(expected, abs=1e-6)
    assert toy.neighbors("King", 2) == near  # in lower case, where its own is not there
    assert len(toy.neighbors("king", 100)) == 4


def test_a_word_without_a_vector(toy: StaticVectors) -> None:
    with pytest.raises(
        InputError, match="toy: expected a word that has a vector, found 'queens'; similar words: queen"
    ):
        toy.neighbors("queens")
    with pytest.raises(InputError, match="'xyzzy'; similar words: none"):
        toy.analogy("king", "man", "xyzzy")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Animals run and plants grow: what can stand in the same places should come near."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(400):
        kind = rng.integers(2)
        noun = rng.choice([["Cat", "dog", "fox"], ["oak", "elm", "fir"]][kind])
        verb = rng.choice([["runs", "jumps", "eats"], ["grows", "blooms", "wilts"]][kind])
        lines.append(f"the {noun} {verb} {rng.choice(['now', 'here'])}")
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("algorithm", ["cbow", "skipgram"])
def test_training_brings_words_of_like_places_together(tmp_path: Path, text: Path, algorithm: str) -> None:
    output = tmp_path / "vectors.txt"
    passes: list[float] = []
    count = train(
        TokenizedCorpus([text]),
        output,
        algorithm=algorithm,
        dim=16,
        epochs=30,
        window=2,
        sample=0,
        lowercase=True,  # type: ignore[arg-type]
        progress=lambda done: passes.append(done.bytes_read / (done.bytes_total or 1)),
    )
    vectors = load_static(output)
    assert count == len(vectors.words) == 15 and output.read_text().startswith("15 16\n")
    assert {near.word for near in vectors.neighbors("cat", 2)} <= {"dog", "fox", "runs", "jumps", "eats"}
    assert vectors.neighbors("oak", 14)[-1].word in {
        "cat",
        "dog",
        "fox",
        "runs",
        "jumps",
        "eats",
        "the",
        "now",
        "here",
    }
    assert passes == sorted(passes) and passes[-1] == pytest.approx(1)  # one reading for the words, and 30 to learn
    assert list(tmp_path.glob(".vectors*")) == []


def test_the_two_algorithms_differ_and_binary_is_the_same(tmp_path: Path, text: Path) -> None:
    for name, algorithm in (("c.txt", "cbow"), ("c.bin", "cbow"), ("s.txt", "skipgram")):
        train(TokenizedCorpus([text]), tmp_path / name, algorithm=algorithm, dim=4, epochs=2)  # type: ignore[arg-type]
    cbow, binary, skipgram = (load_static(tmp_path / name) for name in ("c.txt", "c.bin", "s.txt"))
    assert cbow.words == binary.words
    assert np.stack([cbow.vector(w) for w in cbow.words]) == pytest.approx(
        np.stack([binary.vector(w) for w in cbow.words]), abs=1e-5
    )
    assert (tmp_path / "c.txt").read_text() != (tmp_path / "s.txt").read_text()
    assert set(skipgram.words) == set(cbow.words)


def test_the_same_seed_gives_the_same_file(tmp_path: Path, text: Path) -> None:
    """Also in a process whose strings hash otherwise."""
    train(TokenizedCorpus([text]), tmp_path / "here.txt", dim=6, epochs=2, seed=7)
    code = (
        "import sys; from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus; "
        "from elmokit.analysis.search.static_vectors import train; "
        f"train(TokenizedCorpus([{str(text)!r}]), {str(tmp_path / 'there.txt')!r}, dim=6, epochs=2, seed=7)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "5", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert (tmp_path / "here.txt").read_bytes() == (tmp_path / "there.txt").read_bytes()
    train(TokenizedCorpus([text]), tmp_path / "other.txt", dim=6, epochs=2, seed=8)
    assert (tmp_path / "here.txt").read_bytes() != (tmp_path / "other.txt").read_bytes()


def test_what_cannot_be_trained(tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="expected words that occur 5000 times, found none; lower min_count"):
        train(TokenizedCorpus([text]), tmp_path / "v.txt", min_count=5000)
    with pytest.raises(ConfigError, match="algorithm: expected cbow, skipgram, found 'glove'"):
        train(TokenizedCorpus([text]), tmp_path / "v.txt", algorithm="glove")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="found standard input"):
        train(TokenizedCorpus(["-"]), tmp_path / "v.txt")
    with pytest.raises(OutputError, match="folder that exists"):
        train(TokenizedCorpus([text]), tmp_path / "no" / "v.txt")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match="found none"):
        train(TokenizedCorpus([tmp_path / "empty.txt"]), tmp_path / "v.txt")
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(MissingExtraError, match=r"elmokit\[analysis\]"):
        train(TokenizedCorpus([text]), tmp_path / "v.txt")
    assert not (tmp_path / "v.txt").exists()


def test_glove_text_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in WORDS.items()))
    assert load_static(path).analogy("king", "man", "woman", 1)[0].word == "queen"
    path.write_text("king 1 2\nqueen 1\n")
    with pytest.raises(FormatError, match=r"glove\.txt"):
        load_static(path)
