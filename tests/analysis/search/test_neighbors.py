"""Words in their sentences: found, compared, and told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_elmo import N_LAYERS, ToyElmo, token_layers, word_vector

from elmokit.analysis.search.neighbors import make_query, scan
from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
from elmokit.analysis.senses.polysemy import Judgment, Triple, judge, load_triples
from elmokit.analysis.senses.word_similarity import compare
from elmokit.analysis.shared.layers import views
from elmokit.analysis.shared.occurrence import Occurrence, find_word
from elmokit.errors import ConfigError, FormatError, InputError

TOY: Any = ToyElmo()
ALL = views("all", N_LAYERS)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_a_word_is_found_in_its_sentence() -> None:
    tokens = ["The", "play", "is", "the", "thing", "play"]
    assert find_word(tokens, "thing") == Occurrence(tuple(tokens), 4)
    assert find_word(tokens, "Thing").position == 4
    assert find_word(tokens, "the").position == 3  # its very case comes first
    assert find_word(tokens, "play#2").position == 5
    assert find_word(["C#2", "major"], "C#2").position == 0  # a token, not a number
    with pytest.raises(InputError, match="'play' occurs 2 times in the sentence; use play#1 or play#2"):
        find_word(tokens, "play")
    with pytest.raises(InputError, match="expected play#1 to play#2, found play#3"):
        find_word(tokens, "play#3")
    with pytest.raises(InputError, match="found 'plays'; its tokens: The play is the thing play"):
        find_word(tokens, "plays")
    korean = ["눈이", "내린", "날"]
    with pytest.raises(InputError, match="its tokens: 눈이 내린 날; use substring=True for a part of a token"):
        find_word(korean, "눈")
    assert find_word(korean, "눈", substring=True).position == 0
    assert find_word(tokens, "the", substring=True).position == 3  # a whole token comes first


def test_an_occurrence_is_marked() -> None:
    assert Occurrence(("a", "play", "."), 1).marked() == "a **play** ."
    assert Occurrence(("play",), 0).marked(str.upper) == "PLAY"


@pytest.fixture
def corpus(tmp_path: Path) -> TokenizedCorpus:
    path = tmp_path / "corpus.txt"
    path.write_text("x play y\nred cat sat\nx cat y\nX PLAY y\nx play y\nq play y\n")
    return TokenizedCorpus([path])


def test_neighbors_of_every_view(corpus: TokenizedCorpus) -> None:
    found = scan(TOY, make_query(TOY, "x play y z", "play", ALL), corpus, 3)
    assert (found.sentences, found.tokens, found.occurrences) == (6, 18, 4)
    word, before, around, _ = found.neighbors
    same = Occurrence(("x", "play", "y"), 1)
    assert [near.occurrence for near in word[:2]] == [same, Occurrence(("q", "play", "y"), 1)]  # equal lines count once
    assert [near.similarity for near in word[:2]] == pytest.approx([1, 1])
    assert before[0].occurrence == same and before[0].similarity == pytest.approx(1)
    # the last layer looks at the words on both sides, so a cat between them is as good
    assert {near.occurrence for near in around[:2]} == {same, Occurrence(("x", "cat", "y"), 1)}
    assert around[2].similarity < 0.999


def test_similarities_are_cosines(corpus: TokenizedCorpus) -> None:
    query = make_query(TOY, "x play", "play", ALL)
    found = scan(TOY, query, corpus, 100)
    for j, (view, nearest) in enumerate(zip(ALL, found.neighbors, strict=True)):
        assert len(nearest) == 15  # all but the line that is there twice
        vector = view.of(token_layers(["x", "play"]))[1]
        for near in nearest:
            tokens, k = near.occurrence.tokens, near.occurrence.position
            assert near.similarity == pytest.approx(cosine(vector, view.of(token_layers(tokens))[k]), abs=1e-5)
        assert [near.similarity for near in nearest] == sorted((n.similarity for n in nearest), reverse=True), j


def test_many_offers_leave_the_best(tmp_path: Path) -> None:
    lines = [f"a{k} b{k % 7} c{k % 3}" for k in range(300)]
    (tmp_path / "long.txt").write_text("\n".join(lines))
    (nearest,) = scan(
        TOY, make_query(TOY, "b1 c1", "c1", [ALL[1]]), TokenizedCorpus([tmp_path / "long.txt"]), 4
    ).neighbors
    vector = token_layers(["b1", "c1"])[1, 1]
    every = [cosine(vector, row) for line in lines for row in token_layers(line.split())[1]]
    assert [near.similarity for near in nearest] == pytest.approx(sorted(every, reverse=True)[:4], abs=1e-5)


def test_the_same_word_whatever_its_case(corpus: TokenizedCorpus) -> None:
    found = scan(TOY, make_query(TOY, "x play", "play", [ALL[1]]), corpus, 10, same_word=True)
    assert {near.occurrence.word for near in found.neighbors[0]} == {"play", "PLAY"}
    with pytest.raises(InputError, match="expected 'dog' in the corpus, found none in 18 tokens"):
        scan(TOY, make_query(TOY, "the dog", "dog", [ALL[1]]), corpus, same_word=True)
    without = scan(TOY, make_query(TOY, "the dog", "dog", [ALL[1]]), corpus, 2)
    assert without.occurrences == 0 and len(without.neighbors[0]) == 2


def test_an_empty_corpus_and_a_carried_state(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    query = make_query(TOY, "x play", "play", ALL)
    with pytest.raises(InputError, match="expected sentences, found none"):
        scan(TOY, query, TokenizedCorpus([tmp_path / "empty.txt"]))
    carried: Any = ToyElmo(state="carry")
    with pytest.raises(ConfigError, match="found carry"):
        scan(carried, query, TokenizedCorpus([tmp_path / "empty.txt"]))


def test_found_is_json(corpus: TokenizedCorpus) -> None:
    found = scan(TOY, make_query(TOY, "x play", "play", [ALL[0]]), corpus, 1).to_json()
    (near,) = found["neighbors"]["layer 0"]
    assert json.loads(json.dumps(found)) == found
    assert near["word"] == "play" and near["sentence"] == ["x", "play", "y"] and near["position"] == 1
    assert found["corpus"] == {"sentences": 6, "tokens": 18, "occurrences": 4}


def test_comparisons_are_cosines() -> None:
    first, second = ["x", "play", "y"], ["a", "play"]
    result = compare(TOY, " ".join(first), " ".join(second), ["play"], tokenizer="spaces")
    assert (result.first.position, result.second.position) == (1, 1)
    a, b = token_layers(first), token_layers(second)
    for j, view in enumerate(result.views):
        expected = [[cosine(u, v) for v in view.of(b)] for u in view.of(a)]
        assert result.matrices[j] == pytest.approx(np.array(expected), abs=1e-5)
        assert result.similarities[view.name] == pytest.approx(expected[1][1], abs=1e-5)
    assert list(result.similarities) == ["layer 0", "layer 1", "layer 2", "average"]
    assert result.similarities["layer 0"] == pytest.approx(1)
    assert result.matrix("layer 2") is not None and result.matrix("layer 1").shape == (3, 2)
    assert json.loads(json.dumps(result.to_json()))["similarity"] == result.similarities


def test_two_words_compared() -> None:
    result = compare(TOY, "x play", "a game", ["play", "game"])
    assert result.similarities["layer 0"] == pytest.approx(cosine(word_vector("play"), word_vector("game")), abs=1e-6)
    with pytest.raises(ConfigError, match="one word for both sentences, or one for each, found 3"):
        compare(TOY, "x play", "a game", ["play", "game", "x"])


def test_triples_are_judged() -> None:
    """Layer 1 sees the word before; the triples are made so that it is right once, and wrong once."""
    triples = [
        Triple("play", "a", "b", ("red play ends", "red play starts"), "big play ended"),
        Triple("play", "a", "b", ("red play ends", "big play starts"), "big play ended"),
    ]
    right, wrong = judge(TOY, triples, ALL)
    assert right["layer 1"].right and not wrong["layer 1"].right
    assert right["layer 1"].same == pytest.approx(1)
    assert wrong["layer 1"].second_other == pytest.approx(1)
    red, big = (token_layers([color, "play", "ends"])[1, 1] for color in ("red", "big"))
    assert right["layer 1"].first_other == pytest.approx(cosine(red, big), abs=1e-6)
    assert wrong["layer 1"].same == pytest.approx(cosine(red, big), abs=1e-6)
    for one in (right, wrong):  # equal to the last bit: what knows the word alone cannot tell
        assert one["layer 0"].same == one["layer 0"].first_other == one["layer 0"].second_other
        assert not one["layer 0"].right


def judged(*vectors: list[float]) -> tuple[bool, bool]:
    judgment = Judgment.of(np.array(vectors))
    return judgment.right, judgment.right_by_distance


def test_cosine_and_distance_judge_each_for_itself() -> None:
    assert judged([2, 0], [2, 1], [0, 2]) == (True, True)
    assert judged([1, 0], [9, 0], [1, 1]) == (True, False)  # one direction, but far away
    assert judged([2, 0], [2, 1], [9, 1]) == (False, True)
    assert judged([1, 0], [-1, 0], [1, 1]) == (False, False)


def test_a_draw_is_not_right() -> None:
    assert judged([1, 0], [1, 0], [1, 0]) == (False, False)
    assert judged([0, 1], [1, 0], [-1, 0]) == (False, False)
    assert judged([1, 0], [0, 1], [0, -1]) == (False, False)


def context(sentence: str, word: str) -> tuple[set[str], str, str]:
    tokens = ["<s>", *sentence.lower().split(), "</s>"]
    k = tokens.index(word)
    return {*tokens} - {word, "<s>", "</s>"}, tokens[k - 1], tokens[k + 1]


def test_the_triples_give_no_hint_but_sense() -> None:
    """All three pairs of a triple share as many words with each other, and as many right beside the word."""
    triples = load_triples()
    assert len(triples) >= 20
    ten = ["present", "play", "bank", "bat", "spring", "light", "match", "rock", "season", "right"]
    assert [triple.word for triple in triples[:10]] == ten
    assert len({triple.word for triple in triples}) == len(triples)
    for triple in triples:
        a, b, c = (context(sentence, triple.word) for sentence in (*triple.same, triple.other))
        pairs = ((a, b), (a, c), (b, c))
        assert len({len(x[0] & y[0]) for x, y in pairs}) == 1, triple.word
        assert len({(x[1] == y[1]) + (x[2] == y[2]) for x, y in pairs}) == 1, triple.word


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", "expected a JSON list"),
        ("[]", "expected triples, found none"),
        ("[1]", "expected a JSON list"),
        ('[{"word": "a"}]', "expected a JSON list"),
        (
            '[{"word": "a", "sense": "", "other_sense": "", "same": ["a", "a b", "c a"], "other": "a"}]',
            "triple 1: expected two sentences",
        ),
        ('[{"word": "a", "sense": "", "other_sense": "", "same": ["a", "b"], "other": "a"}]', "'a' once in 'b'"),
        ('[{"word": "a", "sense": "", "other_sense": "", "same": ["a", "a"], "other": 3}]', "two sentences"),
    ],
)
def test_bad_triples(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(FormatError, match=message):
        load_triples(tmp_path / "t.json")
