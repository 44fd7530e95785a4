"""Text with a structure that a small language model can learn in seconds, and training settings for it."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path

import torch

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.vocabulary import Vocabulary
from elmokit.training.checkpoint import Checkpoint

ANIMALS, PLANTS = ("cat", "dog", "cow", "fox", "hen", "owl"), ("oak", "elm", "fir", "ivy", "fern", "moss")
CONFIG = ModelConfig(
    lstm=LstmConfig(dim=12, projection_dim=6),
    char_cnn=CharCnnConfig(embedding_dim=4, filters=((1, 4), (2, 6)), n_highway=1, max_characters=12),
    state="reset",
)


def sentence(rng: random.Random) -> list[str]:
    """The verb follows from the noun, and the color at the end from the first one."""
    noun, color = rng.choice(ANIMALS + PLANTS), rng.choice(("red", "blue", "grey"))
    verb = "runs" if noun in ANIMALS else "grows"
    where = rng.sample(["here", "there", "now", "slowly", "again"], rng.randint(0, 4))
    return ["the", color, noun, verb, *where, "and", "is", color, "."]


def write(path: Path, n: int, seed: int = 0) -> Path:
    rng = random.Random(seed)
    path.write_text("".join(" ".join(sentence(rng)) + "\n" for _ in range(n)), encoding="utf-8")
    return path


def unigram_perplexity(train: Path, test: Path) -> float:
    """Of a model that knows how frequent words are, and no more; ends of sentences are words too."""
    counts = Counter(word for line in train.read_text().splitlines() for word in (*line.split(), "</S>"))
    words = [word for line in test.read_text().splitlines() for word in (*line.split(), "</S>")]
    total = sum(counts.values()) + len(counts)
    return math.exp(-sum(math.log((counts[word] + 1) / total) for word in words) / len(words))


def vocabulary() -> Vocabulary:
    rng = random.Random(0)
    counts = Counter(word for _ in range(300) for word in sentence(rng))
    return Vocabulary(["<S>", "</S>", "<UNK>", *(word for word, _ in counts.most_common())])


def settings(train: Path, **changes: object) -> TrainingSettings:
    usual = TrainingSettings(
        train=(str(train),),
        epochs=None,
        steps=12,
        batch_tokens=60,
        learning_rate=0.02,
        warm_up=3,
        n_samples=10,
        heldout_every=4,
        checkpoint_every=4,
        log_every=1,
    )
    return usual.changed(**changes)


def state(train: Path, **changes: object) -> TrainingState:
    return TrainingState.begin(CONFIG, settings(train, **changes), vocabulary())


def same(a: Checkpoint, b: Checkpoint) -> bool:
    """All tensors bit by bit, and all counts but the clock."""
    tensors = a.tensors.keys() == b.tensors.keys() and all(torch.equal(a.tensors[k], b.tensors[k]) for k in a.tensors)
    one, two = (json.loads(json.dumps({**c.record, "seconds": 0, "notes": {}})) for c in (a, b))
    return tensors and one == two
