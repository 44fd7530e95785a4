"""Settings of a training run; every field is an option of `elmo pretrain`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from elmokit.errors import ConfigError
from elmokit.text.lines import EncodingErrors
from elmokit.training.settings_fields import check, flag, option, settings_from_json

Optimizer = Literal["adam", "adagrad"]
Decay = Literal["none", "linear", "cosine"]
LossKind = Literal["full", "sampled", "adaptive"]
TrainingPrecision = Literal["auto", "float32", "bfloat16"]

# Settings that may change on resumption: the length of the run, the intervals, the precision and the batch size, which
# may grow late in a run or with more processes.
CHANGEABLE = (
    "epochs",
    "steps",
    "minutes",
    "heldout_every",
    "checkpoint_every",
    "log_every",
    "precision",
    "batch_tokens",
    "decay",
    "hold",
    "noise",
)

LONGEST_WARM_UP = 0.1  # share of a run


@dataclass(frozen=True)
class TrainingSettings:
    """Training settings. Exactly one of `epochs`, `steps` and `minutes` is set; the learning rate decays over it."""

    preset: str | None = option(None, "Preset of the model shape and the other settings.")
    options: str | None = option(None, "Model shape, as a published options.json.", metavar="FILE")

    # the text
    train: tuple[str, ...] = option(
        (), "Training text, one sentence per line; also compressed; quoted patterns; repeatable.", metavar="FILES"
    )
    heldout: str | None = option(None, "Held-out text, whose perplexity selects the best weights.", metavar="FILE")
    tokenizer: str = option("spaces", "Tokenizer; spaces is for tokenized text.", metavar="spaces|words|han|spacy:xx")
    encoding_errors: EncodingErrors = option("strict", "Handling of bytes that are not UTF-8.")
    max_sentence: int = option(200, "Maximum tokens per sentence; longer ones are split.", metavar="N", minimum=1)
    vocabulary: str | None = option(
        None,
        "Output vocabulary: <S>, </S>, <UNK>, then words by frequency [built from the text].",
        metavar="FILE",
    )
    vocabulary_size: int = option(
        50_000, "Size of a vocabulary built from the text, special tokens included.", metavar="N", minimum=4
    )

    # how long
    epochs: float | None = option(1.0, "Epochs over the text; fractions are allowed.", metavar="N", above=0)
    steps: int | None = option(None, "Optimizer steps, instead of --epochs.", metavar="N", above=0)
    minutes: float | None = option(  # not reproducible bit for bit
        None, "Minutes of training over all resumptions, instead of --epochs.", metavar="N", above=0
    )

    # the step
    batch_tokens: int = option(2_560, "Tokens per batch, over all processes.", metavar="N", minimum=1)
    accumulate: int = option(1, "Batches per update (gradient accumulation).", metavar="N", minimum=1)
    loss: LossKind = option("full", "Softmax: full, sampled or adaptive.")
    n_samples: int = option(8_192, "Negative samples per batch, with --loss sampled.", metavar="N", minimum=1)
    dropout: float = option(
        0.1,
        "Dropout probability, on the input of every LSTM layer and on the top output.",
        metavar="P",
        minimum=0,
        below=1,
    )
    noise: float = option(
        0.0,
        "Probability of a typing error per input token; targets stay clean.",
        metavar="P",
        minimum=0,
        below=1,
    )
    seed: int = option(
        0,
        "Random seed of initialization, text order, dropout and negative samples.",
        metavar="N",
        minimum=0,
        maximum=2**63 - 1,
    )
    precision: TrainingPrecision = option(
        "auto",
        "Precision of matrix products; auto is bfloat16 on GPUs that support it. bfloat16 is faster on CPUs with "
        "AVX-512 BF16; on other CPUs it means float32.",
    )

    # the optimizer
    optimizer: Optimizer = option("adam", "Optimizer; the published models used adagrad.")
    learning_rate: float = option(2e-3, "Peak learning rate.", metavar="X", above=0)
    warm_up: int = option(
        100,
        "Warm-up steps until the peak learning rate; at most a tenth of the run.",
        metavar="STEPS",
        minimum=0,
        maximum=2**63 - 1,
    )
    decay: Decay = option("cosine", "Shape of the learning-rate decay.")
    hold: float = option(
        0.0, "Fraction of the run before the learning rate starts to decay.", metavar="SHARE", minimum=0, below=1
    )
    clip: float = option(1.0, "Maximum gradient norm.", metavar="X", above=0)
    loss_scale: float = option(  # affects adagrad and gradient clipping
        1.0, "Factor on the mean loss.", metavar="X", hidden=True, above=0
    )
    frozen: bool = option(False, "Train the softmax only, with all other weights frozen.")

    # the record
    heldout_every: int = option(1_000, "Steps between held-out evaluations.", metavar="STEPS", minimum=1)
    checkpoint_every: int = option(500, "Steps between checkpoints.", metavar="STEPS", minimum=1)
    log_every: int = option(10, "Steps between lines of metrics.jsonl.", metavar="STEPS", minimum=1)

    def __post_init__(self) -> None:
        budgets = [name for name in ("epochs", "steps", "minutes") if getattr(self, name) is not None]
        if len(budgets) != 1:
            found = " and ".join(map(flag, budgets)) or "none"
            raise ConfigError(f"--epochs: expected one of --epochs, --steps and --minutes, found {found}")
        check(self)

    def changed(self, **given: Any) -> TrainingSettings:
        """Copy with the given values (None is ignored); a new run length replaces the old one."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if given.keys() & {"epochs", "steps", "minutes"}:
            values |= {"epochs": None, "steps": None, "minutes": None}
        return TrainingSettings(**(values | given))

    def resumed(self, **given: Any) -> TrainingSettings:
        """Settings of a resumed run; raises a ConfigError if a given setting may not change."""
        new = self.changed(**given)
        differences = [
            f"{flag(field.name)} {getattr(self, field.name)} in the run, {getattr(new, field.name)} now"
            for field in fields(self)
            if field.name not in CHANGEABLE and getattr(self, field.name) != getattr(new, field.name)
        ]
        if differences:
            raise ConfigError(
                f"--resume: expected the settings of the run, found {'; '.join(differences)}; leave them out, or start "
                "a new run with another -o"
            )
        return new

    def ended(self, step: int, share: float) -> TrainingSettings:
        """Settings that end the run with a decay from `step` on, over this fraction of the whole run.

        The shape of the decay is `decay`, or linear if that was "none".
        """
        if not 0 < share < 1:
            raise ConfigError(f"--decay-now: expected a fraction between 0 and 1, such as 0.2, found {share}")
        if step < 1:
            raise ConfigError("--decay-now: expected a run with at least one step, found one at its start")
        steps = max(step + 1, round(step / (1 - share)))
        decay = "linear" if self.decay == "none" else self.decay
        return self.changed(steps=steps, decay=decay, hold=step / steps)

    def learning_rate_at(self, step: int, done: float) -> float:
        """Learning rate after `step` completed steps and the fraction `done` of the run."""
        # the warm-up of a short run takes at most a tenth of the run
        rising = min(1.0, max((step + 1) / (self.warm_up + 1), done / LONGEST_WARM_UP))
        fallen = min(1.0, max(0.0, done - self.hold) / (1 - self.hold))  # completed fraction of the decay
        falling = {"none": 1.0, "linear": 1 - fallen, "cosine": (1 + math.cos(math.pi * fallen)) / 2}[self.decay]
        return self.learning_rate * rising * falling

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingSettings:
        """Settings from the JSON of `dataclasses.asdict`; fields that an older run lacks get their defaults."""
        return settings_from_json(cls, values, "settings of the run")
