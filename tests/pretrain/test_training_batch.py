"""Training batches against a slow, readable twin."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmokit.pretrain.training_batch import make_batch
from elmokit.text.characters import ByteCharacters, CodePointCharacters
from elmokit.text.vocabulary import MANY_LANGS_MARKS, Vocabulary

VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
CHARACTERS = ByteCharacters(10)

words = st.sampled_from(["a", "b", "c", "d", "été", "<S>", "</S>", "<UNK>", "a-word-that-is-cut"])
sentence_lists = st.lists(st.lists(words, max_size=7), min_size=1, max_size=6)


def slow_rows(sentences: list[list[str]]) -> list[tuple[str, str]]:
    """(left, right) word of every row: step by step, the longest sentence first."""
    ordered = sorted(sentences, key=lambda sentence: -len(sentence))
    rows = []
    for step in range(len(ordered[0]) + 1):
        for sentence in ordered:
            if step <= len(sentence):
                marked = ["<S>", *sentence, "</S>"]
                rows.append((marked[step], marked[step + 1]))
    return rows


@given(sentence_lists)
def test_against_the_twin(sentences: list[list[str]]) -> None:
    batch = make_batch(sentences, VOCABULARY, CHARACTERS)
    rows = slow_rows(sentences)
    for index, column in ((batch.left, 0), (batch.right, 1)):
        expected = [row[column] for row in rows]
        assert batch.characters is not None
        assert torch.equal(batch.characters[index], torch.from_numpy(CHARACTERS.encode(expected)))
        assert batch.word_ids[index].tolist() == [
            VOCABULARY.words.index(word) if word in VOCABULARY.words else 2 for word in expected
        ]
    assert batch.packing.lengths == tuple(sorted((len(sentence) + 1 for sentence in sentences), reverse=True))
    assert batch.n_tokens == len(rows) == batch.packing.n_tokens


@given(sentence_lists)
def test_each_distinct_word_is_held_once(sentences: list[list[str]]) -> None:
    batch = make_batch(sentences, VOCABULARY, CHARACTERS)
    distinct = {word for sentence in sentences for word in sentence} | {"<S>", "</S>"}
    assert batch.characters is not None and len(batch.characters) == len(batch.word_ids) == len(distinct)
    assert set(batch.left.tolist()) | set(batch.right.tolist()) == set(range(len(distinct)))


@given(sentence_lists)
def test_one_direction_reads_what_the_other_predicts(sentences: list[list[str]]) -> None:
    """Within a sentence, the right word of a step is the left word of the next."""
    batch = make_batch(sentences, VOCABULARY, CHARACTERS)
    for sentence in range(len(sentences)):
        rows = batch.packing.rows(sentence)
        assert batch.right[rows[:-1]].tolist() == batch.left[rows[1:]].tolist()


def test_worked_by_hand() -> None:
    batch = make_batch([["a"], ["b", "x"]], VOCABULARY, CHARACTERS)
    assert batch.packing.lengths == (3, 2)
    assert batch.word_ids[batch.left].tolist() == [0, 0, 4, 3, 2]  # <S> <S> | b a | <UNK>
    assert batch.word_ids[batch.right].tolist() == [4, 3, 2, 1, 1]  # b a | <UNK> </S> | </S>
    assert batch.word_ids.dtype == batch.left.dtype == torch.int64


@pytest.mark.parametrize("marks", [MANY_LANGS_MARKS, ("<S>", "</S>", "<UNK>")])
def test_the_alphabet_has_its_marks_and_the_vocabulary_its_own(marks: tuple[str, str, str]) -> None:
    items = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", "a", "b"]
    characters = CodePointCharacters({item: i for i, item in enumerate(items)}, 10)
    vocabulary = Vocabulary([*marks, "a"], marks=marks)
    batch = make_batch([["a", "b"]], vocabulary, characters)
    assert batch.word_ids[batch.left].tolist() == [0, 3, 2] and batch.word_ids[batch.right].tolist() == [3, 2, 1]
    assert batch.characters is not None
    assert torch.equal(batch.characters[batch.left], torch.from_numpy(characters.encode(["<bos>", "a", "b"])))
    assert torch.equal(batch.characters[batch.right], torch.from_numpy(characters.encode(["a", "b", "<eos>"])))


def test_a_model_may_read_words_alone() -> None:
    batch = make_batch([["a", "x"]], VOCABULARY, None)
    assert batch.characters is None
    assert batch.word_ids[batch.left].tolist() == [0, 3, 2] and batch.word_ids[batch.right].tolist() == [3, 2, 1]


def test_an_empty_sentence_still_predicts_its_end() -> None:
    batch = make_batch([[]], VOCABULARY, CHARACTERS)
    assert batch.n_tokens == 1
    assert batch.word_ids[batch.left].tolist() == [0] and batch.word_ids[batch.right].tolist() == [1]
    with pytest.raises(ValueError, match="one or more lengths"):
        make_batch([], VOCABULARY, CHARACTERS)


def test_fast_enough_to_go_unnoticed() -> None:
    sentences = [[f"word{(17 * i + j * j) % 1200}" for j in range(24)] for i in range(102)]  # 2,550 predictions
    make_batch(sentences, VOCABULARY, ByteCharacters())
    seconds = []
    for _ in range(10):
        started = time.process_time()
        make_batch(sentences, VOCABULARY, ByteCharacters())
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.012  # about 0.003; a step takes a second


NAMES = Vocabulary(["<S>", "</S>", "<UNK>", "river", "bank", "the"])


def test_what_is_read_is_misspelled_and_what_is_predicted_is_not() -> None:
    sentence = ["the", "river", "bank"]
    clean = make_batch([sentence], NAMES, ByteCharacters(12))
    noisy = make_batch(
        [sentence],
        NAMES,
        ByteCharacters(12),
        misspell=lambda tokens: [token.replace("v", "vv") for token in tokens],
    )
    assert noisy.characters is not None and clean.characters is not None
    # the targets of both directions are those of the clean batch
    assert torch.equal(noisy.word_ids[noisy.right], clean.word_ids[clean.right])
    assert torch.equal(noisy.word_ids[noisy.left], clean.word_ids[clean.left])
    # one word is spelt otherwise, the marks and the others are not
    differs = (noisy.characters[noisy.left] != clean.characters[clean.left]).any(dim=1)
    assert differs.tolist() == [False, False, True, False]
    expected = torch.from_numpy(ByteCharacters(12).encode(["rivver"]))[0]
    assert torch.equal(noisy.characters[noisy.left][2], expected)


def test_a_word_both_clean_and_misspelled_has_two_rows() -> None:
    spellings = iter((["bank", "bnak"],))
    batch = make_batch([["bank", "bank"]], NAMES, ByteCharacters(12), misspell=lambda _: next(spellings))
    assert batch.word_ids.tolist() == [0, 1, 4, 4]
