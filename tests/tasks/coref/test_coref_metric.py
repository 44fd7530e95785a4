"""MUC, B-cubed and CEAF against worked examples from the literature, and a slow twin that follows the definitions."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.tasks.coref.coref_metric import ClusterCounts, DocumentCounts, cluster_counts, coref_scores
from elmokit.tasks.coref.document import MentionSpan

Partition = list[list[MentionSpan]]


def clusters(letters: str) -> Partition:
    """Clusters of one-letter mentions: "a bc" is {a} {b, c}."""
    return [[(ord(letter), ord(letter)) for letter in cluster] for cluster in letters.split()]


def ratios(counts: ClusterCounts) -> tuple[float, float]:
    return counts.recall, counts.precision


# The cases that come with the reference implementation (Pradhan et al. 2014): key, response, then recall and precision
# by MUC, B-cubed and CEAF-phi4; None where the literature gives no figure.
CASES = {
    "perfect": ("a bc def", "a bc def", (1, 1), (1, 1), (1, 1)),
    "missing mentions": ("a bc def", "a de", (1 / 3, 1), (7 / 18, 1), (0.6, 0.9)),
    "invented mentions": ("a bc def", "a bcx defy z", (1, 3 / 5), (1, 55 / 108), (93 / 105, 93 / 140)),
    "both": ("a bc def", "a bcx dy z", (1 / 3, 1 / 3), (5 / 9, 17 / 42), (2.2 / 3, 2.2 / 4)),
    "one more in an aligned cluster": ("a bc def", "a bcxB dy z", (1 / 3, 1 / 4), (5 / 9, 5 / 16), (31 / 45, 31 / 60)),
    "one more in another": ("a bc def", "a bcx dy Bz", (1 / 3, 1 / 4), (5 / 9, 17 / 48), (2.2 / 3, 2.2 / 4)),
    "repeated in its cluster": ("a bc def", "a bcxb dy z", (1 / 3, 1 / 3), (5 / 9, 17 / 42), (2.2 / 3, 2.2 / 4)),
    "repeated in another": ("a bc def", "a bcx dy bz", (1 / 3, 1 / 3), (5 / 9, 17 / 42), (2.2 / 3, 2.2 / 4)),
    "singletons only": ("a bc def", "a b c d e f", (0, 0), (1 / 2, 1), None),
    "all in one": ("a bc def", "abcdef", (1, 3 / 5), (1, 7 / 18), None),
    "system's singletons": ("a bc def", "a x y c d e z", (0, 0), (13 / 36, 4 / 7), None),
    "system's all in one": ("a bc def", "axycdez", (1 / 3, 1 / 6), (17 / 36, 6 / 49), None),
    "small joins large": ("12345 67 89ABC", "12345 6789ABC", (1, 9 / 10), (1, 16 / 21), None),  # Bagga and Baldwin
    "large joins large": ("12345 67 89ABC", "1234589ABC 67", (1, 9 / 10), (1, 7 / 12), None),
    "split": ("ABCD", "AB CD", (2 / 3, 1), None, None),  # from here on Vilain et al. 1995
    "merged": ("AB CD", "ABCD", (1, 2 / 3), None, None),
    "one left out": ("ABC", "AC", (1 / 2, 1), None, None),
    "cut in three": ("BCDEGHJ", "ABC DEF GHI", (3 / 6, 3 / 6), None, None),
    "across": ("ABC DEFG", "AB CD FGH", (2 / 5, 2 / 4), None, None),
    "nothing but singletons": ("a b c", "a b c", (0, 0), (1, 1), (1, 1)),
    "no response": ("a bc def", "", (0, 0), (0, 0), (0, 0)),
    "no key": ("", "ab c", (0, 0), (0, 0), (0, 0)),
}


@pytest.mark.parametrize("case", CASES)
def test_worked_cases(case: str) -> None:
    key, response, *expected = CASES[case]
    counts = cluster_counts(clusters(key), clusters(response))
    for metric, figures in zip((counts.muc, counts.b_cubed, counts.ceaf), expected, strict=True):
        if figures is not None:
            assert ratios(metric) == pytest.approx(figures)


@pytest.mark.parametrize(
    ("response", "similarity", "f1"),
    [
        ("12345 6789ABC", 1 + 10 / 12, 0.733),
        ("1234589ABC 67", 10 / 15 + 1, 0.667),
        ("123456789ABC", 10 / 17, 0.294),
        ("1 2 3 4 5 6 7 8 9 A B C", 2 / 6 + 2 / 3 + 2 / 6, 0.178),
    ],
)
def test_ceaf_on_the_example_of_luo(response: str, similarity: float, f1: float) -> None:
    """Luo (2005), with the similarity phi4 = 2 |K & R| / (|K| + |R|)."""
    counts = cluster_counts(clusters("12345 67 89ABC"), clusters(response)).ceaf
    assert numbers(counts) == pytest.approx((similarity, 3, similarity, len(response.split())))
    assert counts.f1 == pytest.approx(f1, abs=5e-4)


def test_a_mention_in_two_clusters_of_the_key_stands_for_the_second() -> None:
    counts = cluster_counts(clusters("ab bc"), clusters("abc"))
    assert numbers(counts.mentions) == (3, 3, 3, 3)
    assert numbers(counts.muc) == (1, 2, 1, 2)  # b and c; a is alone
    # a finds a and b of its cluster of 2; b and c find both of theirs, and the response has 3
    assert numbers(counts.b_cubed) == pytest.approx((3 * 2 / 2, 4, 3 * 2 / 3, 3))
    assert numbers(counts.ceaf) == pytest.approx((4 / 5, 2, 4 / 5, 1))


def test_the_corpus_sums_over_documents_before_it_divides() -> None:
    pairs = [(clusters("ab"), clusters("ab")), (clusters("cdef"), [])]
    scores = coref_scores(pairs)
    assert scores["muc"] == pytest.approx(100 * 2 * (1 / 4) / (1 / 4 + 1))
    assert scores["b_cubed"] == pytest.approx(100 * 2 * (2 / 6) / (2 / 6 + 1))
    assert scores["ceaf"] == pytest.approx(100 * 2 * (1 / 2) / (1 / 2 + 1))
    assert scores["average"] == pytest.approx((scores["muc"] + scores["b_cubed"] + scores["ceaf"]) / 3)
    assert coref_scores([]) == dict.fromkeys(scores, 0.0)


MENTIONS = st.tuples(st.integers(0, 7), st.integers(0, 1)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """Disjoint clusters, at most five, so that the twin can try every alignment."""
    mentions = draw(st.lists(MENTIONS, unique=True, max_size=9))
    numbers = [draw(st.integers(0, 4)) for _ in mentions]
    return [
        found for k in range(5) if (found := [m for m, number in zip(mentions, numbers, strict=True) if number == k])
    ]


def slow(key: Partition, response: Partition) -> dict[str, tuple[Fraction, ...]]:
    """The definitions: links of partitions, mention by mention, all alignments."""

    def partition_recall(these: Partition, those: Partition) -> tuple[Fraction, Fraction]:
        """Vilain et al.: sums of |S| - |p(S)| and |S| - 1 over clusters S, p(S) being how `those` cut it."""
        kept, all_links = 0, 0
        for cluster in these:
            parts = sum(bool({*cluster} & {*other}) for other in those)
            missed = len({*cluster} - {m for other in those for m in other})
            kept += len(cluster) - parts - missed
            all_links += len(cluster) - 1
        return Fraction(kept), Fraction(all_links)

    def mention_recall(these: Partition, those: Partition) -> tuple[Fraction, Fraction]:
        """Bagga and Baldwin: for each mention, the share of its cluster that is in its other cluster too."""
        total = Fraction(0)
        for cluster in these:
            for mention in cluster:
                other = next((set(c) for c in those if mention in c), set())
                total += Fraction(len({*cluster} & other), len(cluster))
        return total, Fraction(sum(map(len, these)))

    small, large = sorted((key, response), key=len)
    best = max(
        sum((Fraction(2 * len({*a} & {*b}), len(a) + len(b)) for a, b in zip(small, order, strict=False)), Fraction(0))
        for order in permutations(large, len(small))
    )
    return {
        "muc": (*partition_recall(key, response), *partition_recall(response, key)),
        "b_cubed": (*mention_recall(key, response), *mention_recall(response, key)),
        "ceaf": (best, Fraction(len(key)), best, Fraction(len(response))),
    }


def numbers(counts: ClusterCounts) -> tuple[float, ...]:
    return counts.recall_part, counts.recall_whole, counts.precision_part, counts.precision_whole


@given(partitions(), partitions())
def test_equals_the_slow_twin(key: Partition, response: Partition) -> None:
    counts = cluster_counts(key, response)
    for name, expected in slow(key, response).items():
        assert numbers(getattr(counts, name)) == pytest.approx([float(x) for x in expected]), name


@given(partitions(), partitions())
def test_properties(key: Partition, response: Partition) -> None:
    there, back = cluster_counts(key, response), cluster_counts(response, key)
    for name in DocumentCounts.__dataclass_fields__:
        one, other = getattr(there, name), getattr(back, name)
        assert ratios(one) == pytest.approx(ratios(other)[::-1]), "recall one way is precision the other"
        assert 0 <= one.f1 <= 1 + 1e-12
    gold = cluster_counts(key, key)
    assert gold.b_cubed.f1 == gold.ceaf.f1 == gold.mentions.f1 == bool(key)
    assert gold.muc.f1 == any(len(cluster) > 1 for cluster in key)
    shuffled = cluster_counts([cluster[::-1] for cluster in key[::-1]], response[::-1])
    assert shuffled.ceaf.f1 == pytest.approx(there.ceaf.f1)
