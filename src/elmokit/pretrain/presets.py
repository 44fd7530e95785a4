"""Named presets: model shapes with their training settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.errors import ConfigError
from elmokit.pretrain.training_settings import TrainingSettings


@dataclass(frozen=True)
class Preset:
    """A model shape and its training settings."""

    config: ModelConfig
    settings: TrainingSettings


# As published: ten epochs over a billion words, batches of 3 x 128 rows of 20 tokens, Adagrad.
PUBLISHED = TrainingSettings(
    epochs=10, batch_tokens=3 * 128 * 20, loss="sampled", n_samples=8_192, vocabulary_size=793_471, dropout=0.1,
    optimizer="adagrad", learning_rate=0.2, warm_up=0, decay="none", clip=10.0, loss_scale=20.0,
)  # fmt: skip


def _published(dim: int, projection_dim: int, n_highway: int) -> Preset:
    lstm = LstmConfig(dim=dim, projection_dim=projection_dim)
    return Preset(ModelConfig(lstm=lstm, char_cnn=CharCnnConfig(n_highway=n_highway), state="reset"), PUBLISHED)


_BASE = ModelConfig(
    lstm=LstmConfig(dim=768, projection_dim=256),
    char_cnn=CharCnnConfig(filters=((1, 32), (2, 64), (3, 128), (4, 256), (5, 256), (6, 288)), n_highway=1),
    state="reset",
)
_LIGHT = ModelConfig(
    lstm=LstmConfig(dim=512, projection_dim=128),
    char_cnn=CharCnnConfig(filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128)), n_highway=1),
    state="reset",
)
_TINY = ModelConfig(
    lstm=LstmConfig(dim=64, projection_dim=32),
    char_cnn=CharCnnConfig(embedding_dim=8, filters=((1, 16), (2, 16), (3, 32)), n_highway=1, max_characters=25),
    state="reset",
)

PRESETS = {
    "tiny": Preset(
        _TINY,
        TrainingSettings(
            epochs=None, steps=300, batch_tokens=500, vocabulary_size=2_000, learning_rate=1e-2, warm_up=20,
            heldout_every=100, checkpoint_every=100,
        ),
    ),
    "light": Preset(
        _LIGHT,
        TrainingSettings(
            batch_tokens=4_096, vocabulary_size=50_003, loss="adaptive", dropout=0.0, learning_rate=3e-3, warm_up=300,
        ),
    ),
    "base": Preset(
        _BASE,
        TrainingSettings(
            epochs=2, batch_tokens=4_096, vocabulary_size=60_003, loss="adaptive", dropout=0.0, learning_rate=3e-3,
            warm_up=500, decay="linear", hold=0.8,
        ),
    ),
    "small": _published(1024, 128, 1),
    "medium": _published(2048, 256, 1),
    "original": _published(4096, 512, 2),
}  # fmt: skip


def get_preset(name: str) -> Preset:
    """Preset by name; the name is recorded in its settings."""
    try:
        preset = PRESETS[name]
    except KeyError:
        raise ConfigError(f"--preset: expected {', '.join(PRESETS)}, found {name!r}") from None
    return Preset(preset.config, replace(preset.settings, preset=name))


# Fine-tuning: one epoch at a low learning rate, as in the paper.
FINETUNE = TrainingSettings(epochs=1, learning_rate=3e-4, heldout_every=200, checkpoint_every=200)
FIT_RATE = 2e-3  # learning rate for fitting a new softmax
MAX_FULL_SOFTMAX_WORDS = 60_000  # above this the full softmax is too slow
