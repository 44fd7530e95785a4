"""The index against brute force; and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_elmo import DIM, ToyElmo, token_layers

from elmokit.analysis.search import vector_files
from elmokit.analysis.search.neighbors import make_query, scan, search
from elmokit.analysis.search.sentence_store import SentenceStore, SentenceWriter
from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
from elmokit.analysis.search.vector_files import VectorFiles, VectorWriter, unit
from elmokit.analysis.search.vector_index import VectorIndex, build_index
from elmokit.analysis.shared.layers import View, views
from elmokit.analysis.shared.occurrence import Occurrence
from elmokit.errors import ConfigError, FormatError, InputError, MissingExtraError, OutputError

AVERAGE = View("average", None)


def random_lines(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    words = [f"w{k}" for k in range(40)] + ["play", "Play"]
    return [" ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(n)]


@pytest.fixture
def corpus(tmp_path: Path) -> TokenizedCorpus:
    path = tmp_path / "corpus.txt"
    lines = random_lines(150)
    path.write_text("\n".join([*lines[:70], "", lines[3], *lines[70:]]) + "\n")  # a blank line, and one twice
    return TokenizedCorpus([path])


def brute_force(
    corpus: TokenizedCorpus, query: np.ndarray, layer: int | None, word: str | None
) -> list[tuple[float, Any]]:
    """Every occurrence with its cosine, best first."""
    found: dict[Any, float] = {}
    for tokens in corpus:
        array = token_layers(tokens)
        vectors = array.mean(axis=0) if layer is None else array[layer]
        for k, (token, vector) in enumerate(zip(tokens, vectors, strict=True)):
            if word is None or token.lower() == word:
                cosine = float(vector @ query / np.linalg.norm(vector) / np.linalg.norm(query))
                found[tuple(tokens), k] = cosine
    return sorted(((cosine, place) for place, cosine in found.items()), key=lambda item: -item[0])


@pytest.fixture(params=[2**20, 2 * DIM * 100], ids=["one file", "many files"])
def shard_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(vector_files, "SHARD_BYTES", request.param)
    return int(request.param)


@pytest.mark.parametrize("layer", [None, 1])
@pytest.mark.parametrize("word", [None, "play"])
def test_an_exact_search_is_brute_force(
    corpus: TokenizedCorpus, tmp_path: Path, shard_bytes: int, layer: int | None, word: str | None
) -> None:
    view = AVERAGE if layer is None else View(f"layer {layer}", layer)
    facts = build_index(ToyElmo(), corpus, tmp_path / "index", view=view)  # type: ignore[arg-type]
    assert facts.tokens == sum(map(len, corpus)) and facts.sentences == 151
    index = VectorIndex(tmp_path / "index")
    query = np.random.default_rng(5).standard_normal(DIM).astype(np.float32)
    found = index.search(query, 20, among=None if word is None else index.sentences.rows(word))
    every = brute_force(corpus, query, layer, word)
    assert [near.similarity for near in found] == pytest.approx([cosine for cosine, _ in every[:20]], abs=2e-3)
    # half precision may exchange what is almost equally near, and nothing else
    true = {place: cosine for cosine, place in every}
    for near in found:
        cosine = true[near.occurrence.tokens, near.occurrence.position]
        assert near.similarity == pytest.approx(cosine, abs=2e-3) and cosine >= every[19][0] - 2e-3
    assert len({near.occurrence for near in found}) == 20  # the line that is there twice counts once


def test_a_scan_finds_what_an_index_finds(corpus: TokenizedCorpus, tmp_path: Path) -> None:
    elmo: Any = ToyElmo()
    build_index(elmo, corpus, tmp_path / "index", view=AVERAGE)
    index = VectorIndex(tmp_path / "index")
    for same_word in (False, True):
        query = make_query(elmo, "w1 play w2", "play", [AVERAGE])
        stored = search(index, elmo, query, 9, same_word=same_word)
        scanned = scan(elmo, query, corpus, 9, same_word=same_word)
        assert (stored.tokens, stored.sentences, stored.occurrences) == (
            scanned.tokens,
            scanned.sentences,
            scanned.occurrences,
        )
        (a,), (b,) = stored.neighbors, scanned.neighbors
        assert [x.similarity for x in a] == pytest.approx([x.similarity for x in b], abs=2e-3)
        assert len({x.occurrence for x in a} & {x.occurrence for x in b}) >= 8


def test_a_reopened_index_answers_the_same(corpus: TokenizedCorpus, tmp_path: Path) -> None:
    query = np.ones(DIM, np.float32)
    for approximate in (False, True):
        folder = tmp_path / f"index{approximate}"
        build_index(ToyElmo(), corpus, folder, view=AVERAGE, approximate=approximate)  # type: ignore[arg-type]
        assert VectorIndex(folder).search(query, 7) == VectorIndex(folder).search(query, 7)
        again = tmp_path / f"again{approximate}"
        build_index(ToyElmo(), corpus, again, view=AVERAGE, approximate=approximate)  # type: ignore[arg-type]
        assert VectorIndex(folder).search(query, 7) == VectorIndex(again).search(query, 7)


def test_files_are_mapped_not_read(corpus: TokenizedCorpus, tmp_path: Path) -> None:
    for approximate in (False, True):
        folder = tmp_path / f"index{approximate}"
        build_index(ToyElmo(), corpus, folder, view=AVERAGE, approximate=approximate)  # type: ignore[arg-type]
        index = VectorIndex(folder)
        index.search(np.ones(DIM, np.float32), 3)
        assert str(folder / "vectors-0000.faiss") in Path("/proc/self/maps").read_text()


def clustered(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((30, DIM))
    return (centers[rng.integers(0, 30, n)] + 0.4 * rng.standard_normal((n, DIM))).astype(np.float32)


def test_recall_is_what_a_brute_force_count_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files, "SHARD_BYTES", 2 * DIM * 2000)
    for enough in (0.5, 0.95, 1.0):
        monkeypatch.setattr(vector_files, "ENOUGH", enough)
        folder = tmp_path / str(enough)
        folder.mkdir()
        vectors = clustered(5000)
        writer = VectorWriter(folder, DIM, approximate=True)
        for part in np.array_split(vectors, 7):
            writer.add(part)
        rows, queries = writer.finish()
        files = VectorFiles(folder, count=5000, dim=DIM, approximate=True)
        recall = files.tune(rows, queries)
        stored = unit(vectors).astype(np.float16).astype(np.float32)
        assert len(rows) == 64 and np.array_equal(queries, stored[rows])
        cosines = queries @ stored.T
        cosines[np.arange(64), rows] = -2  # itself
        truth = np.argsort(-cosines, axis=1)[:, :10]
        found = files.search(queries, 11)[1]
        hits = [len(set(t) & set(f)) for t, f in zip(truth.tolist(), found.tolist(), strict=True)]
        assert recall == pytest.approx(np.mean(hits) / 10, abs=0.02)  # ties apart
        assert recall >= enough and files.probes >= 1
        if enough < 1:
            assert files.probes < 31


def test_an_approximate_index_that_looks_everywhere_is_exact(tmp_path: Path, shard_bytes: int) -> None:
    vectors = clustered(3000, seed=1)
    writer = VectorWriter(tmp_path, DIM, approximate=True)
    writer.add(vectors)
    writer.finish()
    queries = clustered(5, seed=2)
    stored = unit(vectors).astype(np.float16).astype(np.float32)
    expected = np.sort(unit(queries) @ stored.T, axis=1)[:, ::-1]
    files = VectorFiles(tmp_path, count=3000, dim=DIM, approximate=True, probes=10_000)
    assert files.search(queries, 6)[0] == pytest.approx(expected[:, :6], abs=1e-5)
    for rows in (np.arange(0, 3000, 7), np.array([5]), np.array([], int)):
        assert np.array_equal(files.vectors(rows), stored[rows])


def test_the_command_tells_the_recall(corpus: TokenizedCorpus, tmp_path: Path) -> None:
    facts = build_index(ToyElmo(), corpus, tmp_path / "index", view=AVERAGE, approximate=True)  # type: ignore[arg-type]
    assert 0.95 <= facts.recall <= 1 and VectorIndex(tmp_path / "index").facts == facts
    assert json.loads((tmp_path / "index" / "index.json").read_text())["recall"] == facts.recall


def test_an_index_of_one_token(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("word\n")
    for approximate in (False, True):
        folder = tmp_path / f"index{approximate}"
        build_index(ToyElmo(), TokenizedCorpus([tmp_path / "one.txt"]), folder, view=AVERAGE, approximate=approximate)  # type: ignore[arg-type]
        (near,) = VectorIndex(folder).search(np.ones(DIM, np.float32), 5)
        assert near.occurrence == Occurrence(("word",), 0)
        index = VectorIndex(folder)
        assert index.search(np.ones(DIM, np.float32), 5, among=index.sentences.rows("other")) == []


def test_the_given_sentence_is_left_out(corpus: TokenizedCorpus, tmp_path: Path) -> None:
    elmo: Any = ToyElmo()
    build_index(elmo, corpus, tmp_path / "index", view=AVERAGE)
    sentence = next(tokens for tokens in corpus if len(set(tokens)) == len(tokens) > 3)
    query = make_query(elmo, " ".join(sentence), sentence[1], [AVERAGE], tokenizer="spaces")
    for found in (search(VectorIndex(tmp_path / "index"), elmo, query, 200), scan(elmo, query, corpus, 200)):
        (nearest,) = found.neighbors
        assert len(nearest) == 200
        assert all(near.occurrence.tokens != tuple(sentence) for near in nearest)


def test_max_tokens_ends_with_a_whole_sentence(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("a b c\n\nd e\nf g h\ni\n")
    assert list(TokenizedCorpus([path], max_tokens=4)) == [["a", "b", "c"], ["d", "e"]]
    assert list(TokenizedCorpus([path])) == [["a", "b", "c"], ["d", "e"], ["f", "g", "h"], ["i"]]
    with pytest.raises(ConfigError, match="max_tokens"):
        TokenizedCorpus([path], max_tokens=0)


def test_progress_of_a_part_is_that_of_the_part(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a b c d\n" * 300_000)  # much more than a reader takes at once
    whole, part = TokenizedCorpus([path]), TokenizedCorpus([path], max_tokens=400_000)
    assert whole.bytes_total == part.bytes_total == path.stat().st_size
    for _ in whole:
        pass
    assert whole.bytes_total == path.stat().st_size
    for number, _ in enumerate(part, start=1):
        if number == 50_000:  # half of it
            assert part.bytes_total is not None
            assert part.bytes_read / part.bytes_total == pytest.approx(0.5, abs=0.001)
    assert part.bytes_read == part.bytes_total


def test_another_model_is_refused(corpus: TokenizedCorpus, tmp_path: Path) -> None:
    elmo: Any = ToyElmo()
    build_index(elmo, corpus, tmp_path / "index", view=AVERAGE, model="mine")
    index = VectorIndex(tmp_path / "index")
    other: Any = ToyElmo(fingerprint="0" * 64)
    with pytest.raises(InputError, match="another model: expected mine with fingerprint ffffffffffff, found 0000"):
        search(index, other, make_query(other, "play", "play", [AVERAGE]))
    warm: Any = ToyElmo(state="warm")
    with pytest.raises(InputError, match="expected state reset"):
        search(index, warm, make_query(warm, "play", "play", [AVERAGE]))
    with pytest.raises(ConfigError, match="is an index of average, found layer 2"):
        search(index, elmo, make_query(elmo, "play", "play", views("top", 3)))


def test_what_cannot_be_built(corpus: TokenizedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elmo: Any = ToyElmo()
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(InputError, match="expected sentences, found none"):
        build_index(elmo, TokenizedCorpus([tmp_path / "empty.txt"]), tmp_path / "index", view=AVERAGE)
    assert not (tmp_path / "index").exists() and not list(tmp_path.glob(".index*"))
    (tmp_path / "index").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        build_index(elmo, corpus, tmp_path / "index", view=AVERAGE)
    carried: Any = ToyElmo(state="carry")
    with pytest.raises(ConfigError, match="found carry"):
        build_index(carried, corpus, tmp_path / "other", view=AVERAGE)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'elmokit\[analysis\]'"):
        build_index(elmo, corpus, tmp_path / "other", view=AVERAGE)


def test_a_full_disk_leaves_nothing(corpus: TokenizedCorpus, tmp_path: Path) -> None:
    """No file may grow past a few bytes, which is what a full disk looks like."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus\n"
        "from elmokit.analysis.shared.layers import View\n"
        "from elmokit.analysis.search.vector_index import build_index; from elmokit.errors import OutputError\n"
        "from toy_elmo import ToyElmo\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        f"try: build_index(ToyElmo(), TokenizedCorpus([{corpus.inputs[0]!r}]), 'index', view=View('average', None))\n"
        "except OutputError as error: print(error)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "cannot be written" in result.stdout and result.stdout.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.txt"]


def test_damage_is_told(corpus: TokenizedCorpus, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with pytest.raises(InputError, match="made by `elmo index build`"):
        VectorIndex(folder)
    build_index(ToyElmo(), corpus, folder, view=AVERAGE)  # type: ignore[arg-type]
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    for path, content in whole.items():
        for damaged in (content[: len(content) // 2], b"", b"{}"):
            path.write_bytes(damaged)
            with pytest.raises((FormatError, InputError)) as error:
                VectorIndex(folder)
            assert "\n" not in str(error.value)
        path.unlink()
        with pytest.raises((FormatError, InputError)):
            VectorIndex(folder)
        path.write_bytes(content)
    VectorIndex(folder).search(np.ones(DIM, np.float32), 3)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), min_size=1), min_size=1))
def test_sentences_come_back(tmp_path_factory: pytest.TempPathFactory, sentences: list[list[str]]) -> None:
    folder = tmp_path_factory.mktemp("store")
    writer = SentenceWriter()
    for tokens in sentences:
        writer.add(tokens)
    writer.write(folder)
    store = SentenceStore(folder)
    expected = [Occurrence(tuple(tokens), k) for tokens in sentences for k in range(len(tokens))]
    assert [store.occurrence(row) for row in range(len(store))] == expected
    word = sentences[0][0]
    rows = [row for row, one in enumerate(expected) if one.word.casefold() == word.casefold()]
    assert store.rows(word).tolist() == rows


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_unit_length_of_extreme_numbers(dtype: Any) -> None:
    largest, smallest = np.finfo(dtype).max, np.finfo(dtype).tiny
    vectors = np.array([[largest, largest], [smallest, 0], [0, 0], [3, 4]], dtype)
    expected = [[0.5**0.5, 0.5**0.5], [1, 0], [0, 0], [0.6, 0.8]]
    np.testing.assert_allclose(unit(vectors), expected, atol=1e-3)
