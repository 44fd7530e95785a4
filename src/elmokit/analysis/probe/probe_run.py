"""Linear probing of each layer: the complete run of `elmo probe`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from elmokit.analysis.probe.majority_tag import majority_per_word
from elmokit.analysis.probe.probe_fit import ProbeSettings, ProbeVectors, fit_probes, predict_tags
from elmokit.analysis.shared.layers import Meter, View
from elmokit.embed.elmo import Elmo
from elmokit.embed.embed_files import Progress
from elmokit.errors import InputError
from elmokit.nn.bilm import BiLM
from elmokit.nn.initialize import initialize
from elmokit.text.tagged_text import TaggedText
from elmokit.weights.model import Model


@dataclass(frozen=True)
class ProbeReport:
    """Tag accuracies in percent on the test text; tags unseen in training are always errors."""

    accuracy: dict[str, float]  # by view
    control: dict[str, float] | None  # with random weights
    majority: float  # baseline: most frequent tag of each word
    n_tags: int  # in the training text
    unseen_tags: dict[str, int]  # tags that occur only in the test text, with their token counts
    unknown_words: float  # percentage of test tokens whose word does not occur in training
    training_tokens: int
    test_tokens: int
    tokens_per_second: float  # throughput of embedding

    def to_json(self) -> dict[str, Any]:
        """Values for a results file."""
        return asdict(self)


def probe(
    elmo: Elmo,
    train: TaggedText,
    test: TaggedText,
    views: Sequence[View],
    *,
    settings: ProbeSettings | None = None,
    control: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> ProbeReport:
    """Train one classifier per view on one text and test it on another; with `control`, also on a random model."""
    if len(set(train.tags)) == 1:
        raise InputError(
            f"{train.file}: expected two tags or more, found only {train.tags[0]!r}; name another --column"
        )
    settings = settings or ProbeSettings()
    n_tokens = len(train.tags) + len(test.tags)
    meter = Meter(progress, (1 + control) * n_tokens)
    accuracy = _accuracy(elmo, train, test, views, settings, meter)
    random = None
    if control:
        twin = Elmo(random_model(elmo.model, settings.seed), state=elmo.state, device=str(elmo.device))
        random = _accuracy(twin, train, test, views, settings, meter)
    majority = majority_per_word(train, test.words)
    known_tags, known_words = set(train.tags), set(train.words)
    return ProbeReport(
        accuracy=accuracy,
        control=random,
        majority=100 * float(np.mean(np.array(majority) == np.array(test.tags))),
        n_tags=len(known_tags),
        unseen_tags=dict(Counter(tag for tag in test.tags if tag not in known_tags)),
        unknown_words=100 * sum(word not in known_words for word in test.words) / len(test.tags),
        training_tokens=len(train.tags),
        test_tokens=len(test.tags),
        tokens_per_second=meter.tokens_per_second,
    )


def _accuracy(
    elmo: Elmo, train: TaggedText, test: TaggedText, views: Sequence[View], settings: ProbeSettings, meter: Meter
) -> dict[str, float]:
    numbers = {tag: number for number, tag in enumerate(sorted(set(train.tags)))}
    gold = np.array([numbers.get(tag, -1) for tag in test.tags])  # -1 is never predicted
    tags = np.array([numbers[tag] for tag in train.tags])
    with (
        ProbeVectors(elmo, train.sentences, meter) as training,
        ProbeVectors(elmo, test.sentences, meter) as tested,
    ):
        probes = fit_probes(training, tags, len(numbers), views, settings)
        right = (predict_tags(probes, tested, views) == gold).mean(axis=1)
    return {view.name: 100 * float(share) for view, share in zip(views, right, strict=True)}


def random_model(model: Model, seed: int) -> Model:
    """A randomly initialized model with the same configuration and vocabulary."""
    bilm = BiLM(config=model.config)
    initialize(bilm, torch.Generator().manual_seed(seed))
    return Model(model.config, bilm, vocabulary=model.vocabulary, alphabet=model.alphabet)
