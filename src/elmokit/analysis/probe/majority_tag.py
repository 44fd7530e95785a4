"""Most-frequent-tag baseline of a tagger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from elmokit.text.tagged_text import TaggedText


def majority_per_word(train: TaggedText, words: Sequence[str]) -> list[str]:
    """Predict the most frequent training tag of each word, and the most frequent tag overall for unknown words.

    Ties are broken by overall frequency, then alphabetically.
    """
    overall = Counter(train.tags)
    order = sorted(overall, key=lambda tag: (-overall[tag], tag))
    rank = {tag: number for number, tag in enumerate(order)}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(train.words, train.tags, strict=True):
        counts[word][tag] += 1
    best = {word: min(tags, key=lambda tag: (-tags[tag], rank[tag])) for word, tags in counts.items()}
    return [best.get(word, order[0]) for word in words]
