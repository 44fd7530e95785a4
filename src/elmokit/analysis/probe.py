"""What a linear classifier reads off the vectors of each layer: the whole run of `elmo probe`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from elmokit.analysis.layers import Meter, View
from elmokit.analysis.probe_data import TaggedText, majority_per_word
from elmokit.analysis.probe_fit import ProbeSettings, TokenVectors, fit_probes, predict_tags
from elmokit.embed.elmo import Elmo
from elmokit.embed.run import Progress
from elmokit.errors import InputError
from elmokit.nn.bilm import BiLM
from elmokit.nn.initialise import initialise
from elmokit.weights.model import Model


@dataclass(frozen=True)
class ProbeReport:
    """Percentages of right tags in the test text; a tag that the training text lacks is always an error."""

    accuracy: dict[str, float]  # by view
    control: dict[str, float] | None  # the same with random weights
    majority: float  # of the most frequent tag of each word
    n_tags: int  # in the training text
    unseen_tags: dict[str, int]  # that only the test text has, and how many tokens have them
    unknown_words: float  # percentage of tokens of the test text whose word the training text lacks
    training_tokens: int
    test_tokens: int
    tokens_per_second: float  # of the embedding

    def to_json(self) -> dict[str, Any]:
        """The numbers for a results file."""
        return asdict(self)


def probe(
    elmo: Elmo, train: TaggedText, test: TaggedText, views: Sequence[View], *, settings: ProbeSettings | None = None,
    control: bool = False, progress: Callable[[Progress], None] | None = None,
) -> ProbeReport:  # fmt: skip
    """Train a classifier a view on one text and test it on another; with `control` on random vectors, too."""
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
        TokenVectors(elmo, train.sentences, meter) as training,
        TokenVectors(elmo, test.sentences, meter) as tested,
    ):
        probes = fit_probes(training, tags, len(numbers), views, settings)
        right = (predict_tags(probes, tested, views) == gold).mean(axis=1)
    return {view.name: 100 * float(share) for view, share in zip(views, right, strict=True)}


def random_model(model: Model, seed: int) -> Model:
    """A model of the same shape and words with the weights that training starts from."""
    bilm = BiLM(config=model.config)
    initialise(bilm, torch.Generator().manual_seed(seed))
    return Model(model.config, bilm, vocabulary=model.vocabulary, alphabet=model.alphabet)
