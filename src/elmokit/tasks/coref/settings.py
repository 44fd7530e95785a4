"""The hyper-parameters of coreference."""

from __future__ import annotations

from dataclasses import dataclass

from elmokit.errors import ConfigError
from elmokit.tasks.settings import FitSettings, option


@dataclass(frozen=True)
class CorefSettings(FitSettings):
    """Those of Lee et al. (2017), but for what lets it learn from less text, on two cores.

    There: the nearest 250 antecedents; here fewer, found by a first cheap pass. There: 50 sentences of a document at a
    time; here as many as `train_tokens` hold. There: nothing but antecedents is learnt, so that a mention that was not
    kept teaches nothing; here mentions are learnt too (Zhang et al. 2018). There: 0.4 spans a token; here 0.3.
    """

    lstm_dim: int = option(200, "Cells of the biLSTM, in each direction.", minimum=1)
    hidden_dim: int = option(150, "Size of the hidden layers that score mentions and antecedents.", minimum=1)
    feature_dim: int = option(20, "Size of the vectors of widths, distances, speakers and genres.", minimum=1)
    max_width: int = option(10, "Longest mention, in tokens.", minimum=1)
    span_ratio: float = option(0.3, "Spans kept as possible mentions, for every token.", minimum=0)
    max_antecedents: int = option(40, "Earlier spans that a span is compared with in full.", minimum=1)
    train_tokens: int = option(600, "Tokens of a document that a training step sees.", minimum=1)
    mention_weight: float = option(0.5, "Weight of the loss that tells mentions from other spans.", minimum=0)
    lexical_dropout: float = option(0.5, "Share of the numbers dropped in what the biLSTM reads.", minimum=0, below=1)
    elmo_dropout: float = 0.0  # ELMo is part of what the other two drop from
    dropout: float = 0.2
    character_filters: int = 50
    batch_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size != 1:
            raise ConfigError(
                f"--batch-size: expected 1, as coreference reads a document at a time, found {self.batch_size}"
            )
