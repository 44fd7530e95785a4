"""Noisy copies of training sentences."""

from __future__ import annotations

from elmokit.tasks.ner import Ner, NerSentence
from elmokit.tasks.pos import Pos, PosSentence
from elmokit.tasks.shared.noisy_copies import noisy_copies
from elmokit.tasks.shared.tags import Span
from elmokit.tasks.sst import Phrase, Sst, SstSentence

NAMES = NerSentence(("Ada", "Lovelace", "lived", "in", "London"), (Span(0, 2, "PER"), Span(4, 5, "LOC")))


def test_copies_have_other_words_and_the_same_labels() -> None:
    copies = noisy_copies([NAMES] * 200, Ner.settings(noise=0.3))
    assert len(copies) == 200
    assert all(copy.entities == NAMES.entities and len(copy.tokens) == 5 for copy in copies)
    assert sum(copy.tokens != NAMES.tokens for copy in copies) > 150
    assert any(copy.tokens == tuple(token.lower() for token in NAMES.tokens) for copy in copies)


def test_copies_follow_from_the_seed() -> None:
    first, again, other = (noisy_copies([NAMES] * 20, Ner.settings(noise=0.3, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_every_tagger_trains_on_the_sentences_and_on_their_copies() -> None:
    tagged = PosSentence(("Ada", "writes"), ("NNP", "VBZ"))
    phrase = Phrase(0, 1, "2")
    judged = SstSentence(("Splendid", "film"), "4", (phrase,))
    for task, sentence, more in (
        (Ner(), NAMES, {}),
        (Pos(), tagged, {}),
        (Sst(), judged, {}),
        (Sst(), judged, {"phrases": True}),
    ):
        clean = task.training_examples([sentence], task.settings(**more))  # type: ignore[attr-defined]
        noisy = task.training_examples([sentence], task.settings(noise=0.5, **more))  # type: ignore[attr-defined]
        assert noisy[: len(clean)] == clean and len(noisy) == len(clean) + 1
        assert len(noisy[-1].tokens) == len(sentence.tokens)
