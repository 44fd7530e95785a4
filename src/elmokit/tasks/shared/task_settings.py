"""Settings shared by all tasks: text inputs and training. Every field is a flag of `train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elmokit.config import IndependentState
from elmokit.training.settings_fields import check, option

Place = Literal["input", "output", "both"]
Mix = Literal["all", "top"]
FitOptimizer = Literal["adam", "adadelta"]
FitDecay = Literal["none", "plateau", "linear"]


@dataclass(frozen=True)
class InputSettings:
    """Input settings: how tokens become vectors."""

    elmo: bool = option(True, "Use ELMo.")
    model: str | None = option(None, "biLM: folder, file, zip or name [the packaged model].", metavar="PATH")
    state: IndependentState | None = option(
        None, "Initial LSTM state of every sentence: zero, or one fixed warm state [that of the model]."
    )
    elmo_at: Place = option("input", "Where ELMo is added; each place has its own scalar mix.")
    mix: Mix = option("all", "All biLM layers with learned weights, or the top layer only.")
    mix_l2: float = option(0.0, "L2 regularization of the layer weights, toward equal weights.", minimum=0)
    elmo_dropout: float = option(0.5, "Dropout probability of the ELMo vectors.", minimum=0, below=1)
    layer_norm: bool = option(False, "Apply layer normalization before mixing.")
    finetune_bilm: bool = option(False, "Fine-tune the biLM with the task (slow).")
    bilm_learning_rate: float = option(1e-4, "Peak learning rate of the biLM, with --finetune-bilm.", minimum=0)
    vectors: str | None = option(
        None, "Static word vectors: GloVe text, word2vec text or binary, also compressed.", metavar="FILE"
    )
    train_vectors: bool = option(False, "Fine-tune the static vectors of words in the training data.")
    word_dim: int = option(100, "Dimension of the learned word vectors, without --vectors.", minimum=0)
    character_filters: int = option(0, "Filters of the character CNN trained with the task; 0 for none.", minimum=0)
    character_dim: int = option(16, "Dimension of the character embeddings.", minimum=1)
    character_width: int = option(3, "Filter width of the character CNN, in characters.", minimum=1)

    def __post_init__(self) -> None:
        check(self)

    @property
    def places(self) -> tuple[Literal["input", "output"], ...]:
        """Places where ELMo is added: neither, one or both of "input" and "output"."""
        if not self.elmo:
            return ()
        return ("input", "output") if self.elmo_at == "both" else (self.elmo_at,)


@dataclass(frozen=True)
class FitSettings(InputSettings):
    """Input settings and training settings; base class of the settings of each task."""

    epochs: int = option(50, "Maximum number of epochs.", minimum=1)
    patience: int = option(10, "Early stopping: epochs without a better dev score.", minimum=1)
    batch_size: int = option(32, "Examples per batch.", minimum=1)
    optimizer: FitOptimizer = option("adam", "Optimizer.")
    learning_rate: float = option(1e-3, "Peak learning rate.", minimum=0)
    warm_up: int = option(0, "Linear warm-up of the learning rate, in steps.", minimum=0)
    decay: FitDecay = option("plateau", "Learning-rate schedule: constant, reduced on a plateau, or linear to zero.")
    decay_factor: float = option(0.5, "Factor of the learning rate on a plateau, with --decay plateau.", minimum=0)
    decay_patience: int = option(3, "Epochs without a better dev score before a reduction.", minimum=1)
    clip: float = option(5.0, "Maximum gradient norm.", minimum=0)
    dropout: float = option(0.5, "Dropout probability in the network.", minimum=0, below=1)
    train_fraction: float = option(
        1.0, "Fraction of the training data to use: a random sample, drawn with --seed.", minimum=0, maximum=1
    )
    hold_out: float = option(
        0.1, "Fraction of the training data held out for validation, without --dev.", minimum=0, below=1
    )
    seed: int = option(0, "Random seed.", minimum=0, maximum=2**63 - 1)


@dataclass(frozen=True)
class TaggerSettings(FitSettings):
    """Settings of the tasks that `elmo tag` applies to any text."""

    noise: float = option(
        0.0,
        "Train on a noisy copy of every sentence, too: this share of its words is misspelled, and some copies are in "
        "lower case or capitals.",
        minimum=0,
        below=1,
    )
