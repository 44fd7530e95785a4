"""The words of a corpus, counted, and the vocabulary that a model predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain, islice

from elmokit.errors import ConfigError, InputError
from elmokit.pretrain.corpus import Corpus
from elmokit.text.vocabulary import PUBLISHED_MARKS, Vocabulary

_SENTENCES_AT_A_TIME = 1_000


def count_words(
    corpus: Corpus, *, max_distinct: int = 4_000_000, progress: Callable[[float], None] | None = None
) -> Counter[str]:
    """How often each word occurs, in one pass and bounded memory: some 150 bytes for each distinct word.

    When there are more than `max_distinct` of them, the rarest are forgotten: those seen once, at the next time those
    seen once or twice since, and so on. Exact below that bound. `progress` is called with the fraction read.
    """
    counts: Counter[str] = Counter()
    reading = corpus.read()
    sentences = iter(reading)
    rare = 0
    while some := list(islice(sentences, _SENTENCES_AT_A_TIME)):
        counts.update(chain.from_iterable(some))
        while len(counts) > max_distinct:
            rare += 1
            counts = Counter({word: n for word, n in counts.items() if n > rare})
        if progress is not None:
            progress(reading.progress)
    return counts


def build_vocabulary(corpus: Corpus, size: int, *, progress: Callable[[float], None] | None = None) -> Vocabulary:
    """The `size` first of: the marks `<S>`, `</S>`, `<UNK>`, then words by descending frequency, equals by code point.

    The order matters: sampled softmax draws its negatives as if a word's frequency followed from its rank.
    """
    if size <= len(PUBLISHED_MARKS):
        raise ConfigError(f"--vocabulary-size: expected at least 4 (three marks and a word), found {size}")
    counts = count_words(corpus, progress=progress)
    for mark in (*PUBLISHED_MARKS, "!!!MAXTERMID"):  # the last one is a comment in vocabulary files
        del counts[mark]
    # A tokenizer may find words with white space inside or around; a vocabulary file could not hold them all.
    words = [(-n, word) for word, n in counts.items() if word.split() == [word]]
    if not words:
        raise InputError(f"corpus: expected words, found none in {corpus}; check --train")
    return Vocabulary([*PUBLISHED_MARKS, *(word for _, word in sorted(words)[: size - len(PUBLISHED_MARKS)])])


def require_marks(vocabulary: Vocabulary) -> None:
    """Raise a ConfigError unless the three marks are among the words."""
    for mark in vocabulary.marks:
        if mark not in vocabulary:
            raise ConfigError(f"vocabulary: expected the words {' '.join(vocabulary.marks)}, found no {mark}; add it")


def check_vocabulary(vocabulary: Vocabulary) -> None:
    """Raise a ConfigError unless the three marks are the first three words, in any order."""
    front = vocabulary.words[: len(PUBLISHED_MARKS)]
    for mark in PUBLISHED_MARKS:
        if mark not in front:
            found = f"it in line {vocabulary.words.index(mark) + 1}" if mark in vocabulary else "no such line"
            marks = ", ".join(PUBLISHED_MARKS)
            raise ConfigError(
                f"vocabulary: expected {mark} in the first three lines, found {found}; begin the file with {marks}, "
                "one a line, then the words by descending frequency"
            )
