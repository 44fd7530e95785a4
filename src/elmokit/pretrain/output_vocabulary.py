"""Output vocabulary: word counts of a corpus and the most frequent words."""

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
    """Word counts, in one pass and bounded memory: about 150 bytes per distinct word.

    Exact up to `max_distinct` words. Above that the rarest words are dropped: first those seen once, the next time
    those seen at most twice, and so on. `progress` is called with the fraction read.
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
    """Vocabulary of `size` entries: `<S>`, `</S>`, `<UNK>`, then words by descending frequency, ties by code point.

    The order matters: the sampled softmax draws its negatives log-uniformly by rank.
    """
    if size <= len(PUBLISHED_MARKS):
        raise ConfigError(f"--vocabulary-size: expected at least 4 (three special tokens and a word), found {size}")
    counts = count_words(corpus, progress=progress)
    for mark in (*PUBLISHED_MARKS, "!!!MAXTERMID"):  # !!!MAXTERMID is a comment in vocabulary files
        del counts[mark]
    # A tokenizer may return words that contain white space, which a vocabulary file cannot represent.
    words = [(-n, word) for word, n in counts.items() if word.split() == [word]]
    if not words:
        raise InputError(f"corpus: expected words, found none in {corpus}; check --train")
    return Vocabulary([*PUBLISHED_MARKS, *(word for _, word in sorted(words)[: size - len(PUBLISHED_MARKS)])])


def require_marks(vocabulary: Vocabulary) -> None:
    """Raise a ConfigError unless the vocabulary contains the three special tokens."""
    for mark in vocabulary.marks:
        if mark not in vocabulary:
            raise ConfigError(f"vocabulary: expected the words {' '.join(vocabulary.marks)}, found no {mark}; add it")


def check_vocabulary(vocabulary: Vocabulary) -> None:
    """Raise a ConfigError unless the first three words are the special tokens, in any order."""
    front = vocabulary.words[: len(PUBLISHED_MARKS)]
    for mark in PUBLISHED_MARKS:
        if mark not in front:
            found = f"it in line {vocabulary.words.index(mark) + 1}" if mark in vocabulary else "no such line"
            marks = ", ".join(PUBLISHED_MARKS)
            raise ConfigError(
                f"vocabulary: expected {mark} in the first three lines, found {found}; start the file with {marks}, "
                "one per line, then the words by descending frequency"
            )
