"""Hyperparameters of coreference resolution."""

from __future__ import annotations

from dataclasses import dataclass

from elmokit.errors import ConfigError
from elmokit.tasks.shared.task_settings import FitSettings
from elmokit.training.settings_fields import option


@dataclass(frozen=True)
class CorefSettings(FitSettings):
    """Settings of Lee et al. (2017), adapted to train on less text and on two cores.

    Differences: fewer antecedents than the nearest 250, chosen by a cheap first pass; training excerpts of
    `train_tokens` tokens instead of 50 sentences; an additional mention loss (Zhang et al. 2018), so that pruned
    mentions still give a gradient; 0.3 instead of 0.4 spans per token.
    """

    lstm_dim: int = option(200, "Hidden units of the biLSTM per direction.", minimum=1)
    hidden_dim: int = option(150, "Hidden units of the mention and antecedent scorers.", minimum=1)
    feature_dim: int = option(20, "Dimension of the width, distance, speaker and genre embeddings.", minimum=1)
    max_width: int = option(10, "Maximum mention length, in tokens.", minimum=1)
    span_ratio: float = option(0.3, "Candidate mentions kept per token.", minimum=0)
    max_antecedents: int = option(40, "Antecedent candidates per span in the full pass.", minimum=1)
    train_tokens: int = option(600, "Tokens of a document per training step.", minimum=1)
    mention_weight: float = option(0.5, "Weight of the mention-detection loss.", minimum=0)
    lexical_dropout: float = option(0.5, "Dropout probability of the biLSTM inputs.", minimum=0, below=1)
    elmo_dropout: float = 0.0  # the other two dropouts already apply to ELMo
    dropout: float = 0.2
    character_filters: int = 50
    batch_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size != 1:
            raise ConfigError(
                f"--batch-size: expected 1, as coreference reads a document at a time, found {self.batch_size}"
            )
