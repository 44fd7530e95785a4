"""Sense vectors and nearest senses against a twin that takes one occurrence at a time."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import models
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sense_files import BANK_MONEY, BANK_RIVER, RUN_MOVE, RUN_WORK, TAKE_PLACE, Word, write_corpus, write_wordnet
from word_elmo import WordElmo, word_vector

from elmokit.analysis.senses.sense_corpus import Instance, SenseCorpus, read_corpus
from elmokit.analysis.senses.sense_vectors import SenseInventory, instance_vectors, nearest_senses, sense_vectors
from elmokit.analysis.senses.wordnet import WordNet, read_wordnet
from elmokit.analysis.shared import layers
from elmokit.analysis.shared.layers import Meter, views
from elmokit.embed.elmo import Elmo

METER = Meter(None, 1)
VIEWS = views("0,1,1-0", 2)


@pytest.fixture
def wordnet(tmp_path: Path) -> WordNet:
    return read_wordnet(write_wordnet(tmp_path / "wordnet"))


def slow_instance(elmo: Elmo, corpus: SenseCorpus, instance: Instance) -> np.ndarray:
    """(L + 1, 2D): the mean of its tokens, found by walking through the sentences."""
    start = 0
    for sentence in corpus.sentences:
        if start <= instance.first < start + len(sentence):
            (embedded,) = elmo.embed([sentence])
            tokens = [embedded.layers[:, t - start] for t in range(instance.first, instance.end)]
            return np.mean(tokens, axis=0)
        start += len(sentence)
    raise AssertionError


def slow_senses(elmo: Elmo, corpus: SenseCorpus) -> dict[str, np.ndarray]:
    occurrences = defaultdict(list)
    for instance in corpus.instances:
        for key in instance.keys:
            occurrences[key].append(slow_instance(elmo, corpus, instance))
    return {key: np.mean(vectors, axis=0) for key, vectors in occurrences.items()}


def slow_nearest(vector: np.ndarray, lemma: str, pos: str, senses: dict[str, np.ndarray]) -> str | None:
    parts = {"NOUN": "1", "VERB": "2"}
    distances = {
        key: float(np.linalg.norm(vector - mean))
        for key, mean in senses.items()
        if key.startswith(f"{lemma}%{parts[pos]}")
    }
    return min(distances, key=lambda key: distances[key]) if distances else None


def word(draw: st.DrawFn) -> Word:
    lemma, pos, senses = draw(
        st.sampled_from([("bank", "NOUN", [BANK_MONEY, BANK_RIVER]), ("run", "VERB", [RUN_MOVE, RUN_WORK])])
    )
    text = draw(st.sampled_from(["bank", "banks", "ran", "run up", "river bank here"]))
    return text, lemma, pos, draw(st.lists(st.sampled_from(senses), min_size=1, max_size=2, unique=True))


@st.composite
def corpora(draw: st.DrawFn) -> list[list[Word]]:
    plain = st.sampled_from(["a", "the", "new york", "."])
    sentences = draw(st.lists(st.lists(plain | st.composite(word)(), max_size=6), min_size=1, max_size=8))
    return [*sentences, [("bank", "bank", "NOUN", [BANK_MONEY])]]


@settings(max_examples=40, deadline=None)
@given(corpora(), corpora(), st.integers(1, 30))
def test_any_corpus(tmp_path_factory: pytest.TempPathFactory, train: object, test: object, block: int) -> None:
    folder = tmp_path_factory.mktemp("corpora")
    elmo: Elmo = WordElmo()  # type: ignore[assignment]
    training, asked = (read_corpus(write_corpus(folder, *x)) for x in (("train", train), ("test", test)))  # type: ignore[arg-type]
    inventory = SenseInventory.of(training.instances, asked.instances, read_wordnet(write_wordnet(folder / "wordnet")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "BLOCK_TOKENS", block)
        means = sense_vectors(elmo, training, inventory, VIEWS, METER).means
        vectors = instance_vectors(elmo, asked, METER)
    expected = slow_senses(elmo, training)
    for number, key in enumerate(inventory.keys):
        np.testing.assert_allclose(means[:, number], expected[key], rtol=1e-5, atol=1e-6)
    for number, instance in enumerate(asked.instances):
        np.testing.assert_allclose(vectors[:, number], slow_instance(elmo, asked, instance), rtol=1e-5, atol=1e-6)
    answers = nearest_senses(vectors[1], asked.instances, means[1], inventory)
    for number, (instance, answer) in enumerate(zip(asked.instances, answers, strict=True)):
        slow = slow_nearest(vectors[1, number], instance.lemma, instance.pos, expected_layer(expected, 1))
        if answer != slow:  # a tie, which WordNet's order decides
            assert answer is not None and slow is not None
            a, b = (np.linalg.norm(expected[key][1] - vectors[1, number]) for key in (answer, slow))
            assert a == pytest.approx(b, abs=3e-5)  # TIE, which is of the mean over 6 dimensions
            assert answer in (BANK_RIVER, RUN_MOVE)


def expected_layer(senses: dict[str, np.ndarray], layer: int) -> dict[str, np.ndarray]:
    return {key: mean[layer] for key, mean in senses.items()}


def test_with_a_network(tmp_path: Path, wordnet: WordNet) -> None:
    folder, _, _ = models.write_variant(tmp_path / "model", "usual")
    elmo = Elmo.from_pretrained(folder)
    sentences: list[list[Word]] = [
        ["the", ("river bank", "bank", "NOUN", [BANK_RIVER]), "is", "green"],
        ["my", ("bank", "bank", "NOUN", [BANK_MONEY]), ("took place", "take_place", "VERB", [TAKE_PLACE])],
        [("banks", "bank", "NOUN", [BANK_MONEY, BANK_RIVER]), "!"],
    ]
    corpus = read_corpus(write_corpus(tmp_path, "train", sentences))
    inventory = SenseInventory.of(corpus.instances, corpus.instances, wordnet)
    assert inventory.keys == [BANK_RIVER, BANK_MONEY, TAKE_PLACE]
    means = sense_vectors(elmo, corpus, inventory, VIEWS, METER).means
    expected = slow_senses(elmo, corpus)
    np.testing.assert_allclose(means, np.stack([expected[key] for key in inventory.keys], axis=1), rtol=1e-4, atol=1e-6)


def test_by_hand(tmp_path: Path, wordnet: WordNet) -> None:
    """Layer 0 of the stand-in is the word's vector, layer 1 that of the word before it."""
    sentences: list[list[Word]] = [
        ["green", ("bank", "bank", "NOUN", [BANK_RIVER])],
        ["rich", ("bank", "bank", "NOUN", [BANK_MONEY])],
        ["rich", ("river bank", "bank", "NOUN", [BANK_MONEY])],
    ]
    corpus = read_corpus(write_corpus(tmp_path, "train", sentences))
    inventory = SenseInventory.of(corpus.instances, corpus.instances, wordnet)
    found = sense_vectors(WordElmo(), corpus, inventory, VIEWS, METER)  # type: ignore[arg-type]
    means = found.means
    bank, river, rich, green = map(word_vector, ("bank", "river", "rich", "green"))
    np.testing.assert_allclose(means[0], [bank, (bank + (river + bank) / 2) / 2], rtol=1e-6)
    np.testing.assert_allclose(means[1], [green, (rich + (rich + river) / 2) / 2], rtol=1e-6)
    tokens = [bank, bank, river, bank], [green, rich, rich, river]  # of the occurrences, in both layers
    differences = [after - before for before, after in zip(*tokens, strict=True)]
    np.testing.assert_allclose(found.spread, np.std([*tokens, differences], axis=1), rtol=1e-5)


def test_ties_and_lemmas_that_were_never_seen(tmp_path: Path, wordnet: WordNet) -> None:
    """In layer 0 all banks are equal, so WordNet's order decides, whatever comes first or more often in the text."""
    money: Word = ("bank", "bank", "NOUN", [BANK_MONEY])
    river: Word = ("bank", "bank", "NOUN", [BANK_RIVER])
    sentences = [["a", money], ["the", money]] * 3 + [["green", river]]
    training = read_corpus(write_corpus(tmp_path, "train", sentences))
    asked = read_corpus(write_corpus(tmp_path, "test", [["the", money, ("runs", "run", "VERB", [RUN_MOVE])]]))
    inventory = SenseInventory.of(training.instances, asked.instances, wordnet)
    elmo: Elmo = WordElmo()  # type: ignore[assignment]
    means, vectors = sense_vectors(elmo, training, inventory, VIEWS, METER).means, instance_vectors(elmo, asked, METER)
    assert nearest_senses(vectors[0], asked.instances, means[0], inventory) == [BANK_RIVER, None]
    assert nearest_senses(vectors[1], asked.instances, means[1], inventory) == [BANK_MONEY, None]


def test_senses_that_wordnet_does_not_have_come_last(wordnet: WordNet) -> None:
    def instance(key: str) -> Instance:
        return Instance("i", "bank", "NOUN", 0, 1, (key,))

    seen = [instance("bank%1:99:00::"), instance(BANK_MONEY), instance("bank%1:99:01::"), instance(BANK_RIVER)]
    inventory = SenseInventory.of(seen, seen[:1], wordnet)
    assert inventory.keys == [BANK_RIVER, BANK_MONEY, "bank%1:99:00::", "bank%1:99:01::"]
    assert inventory.ranges == {("bank", "NOUN"): range(4)}
    assert SenseInventory.of([], seen, wordnet).ranges == {}
