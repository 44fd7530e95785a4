"""Training settings, and the learning-rate schedule that follows from them."""

from __future__ import annotations

import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError
from elmokit.pretrain.training_settings import TrainingSettings


@given(st.floats(0, 0.95), st.sampled_from(["linear", "cosine"]), st.floats(0, 1))
def test_the_rate_is_held_and_then_falls_to_zero(hold: float, decay: str, done: float) -> None:
    settings = TrainingSettings(hold=hold, decay=decay, warm_up=0, learning_rate=0.5)  # type: ignore[arg-type]
    rate = settings.learning_rate_at(10, done)
    if done <= hold:
        assert rate == 0.5
    else:
        assert rate <= 0.5
        assert rate <= settings.learning_rate_at(10, (hold + done) / 2) + 1e-12
    assert settings.learning_rate_at(10, 1.0) == pytest.approx(0, abs=1e-12)
    assert settings.learning_rate_at(10, (hold + 1) / 2) == pytest.approx(0.25)


def test_a_run_ends_with_a_decay_that_starts_where_it_is() -> None:
    settings = TrainingSettings(epochs=100, decay="none", warm_up=0, learning_rate=1.0).ended(800, 0.2)
    assert (settings.steps, settings.epochs, settings.decay) == (1000, None, "linear")
    assert [settings.learning_rate_at(s, s / 1000) for s in (799, 800, 900, 1000)] == pytest.approx([1, 1, 0.5, 0])
    assert TrainingSettings(decay="cosine").ended(800, 0.2).decay == "cosine"


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_decay_is_a_share_of_the_run(share: float) -> None:
    with pytest.raises(ConfigError, match="decay_now: expected a fraction between 0 and 1"):
        TrainingSettings().ended(100, share)


def test_settings_of_an_older_run_that_lack_a_field_get_its_default() -> None:
    values = asdict(TrainingSettings(dropout=0.3))
    del values["hold"], values["noise"]
    assert TrainingSettings.from_json(values) == TrainingSettings(dropout=0.3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_tokens", 0), ("learning_rate", 0.0), ("learning_rate", math.nan), ("dropout", 1.0), ("steps", 0),
     ("optimizer", "sgd"), ("loss", "hinge"), ("seed", -1), ("clip", -1.0), ("decay", "step"), ("accumulate", 0)],
)  # fmt: skip
def test_a_wrong_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected .*, found "):
        TrainingSettings().changed(**{name: value})


def test_a_run_has_one_length() -> None:
    with pytest.raises(ConfigError, match="epochs and steps"):
        TrainingSettings(epochs=1, steps=3)
    assert TrainingSettings().changed(minutes=3.0).epochs is None


def test_the_learning_rate_rises_and_falls() -> None:
    settings = TrainingSettings(learning_rate=1.0, warm_up=4, decay="linear")
    assert [settings.learning_rate_at(step, 0.0) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])
    short = settings.changed(warm_up=300, decay="none")  # of a run of 100 steps, a tenth
    assert [short.learning_rate_at(step, step / 100) for step in (0, 5, 10, 99)] == pytest.approx([1 / 301, 0.5, 1, 1])
    long = [
        settings.changed(warm_up=300, decay="none").learning_rate_at(step, step / 5000) for step in range(0, 400, 50)
    ]
    assert long == pytest.approx([min(1, (step + 1) / 301) for step in range(0, 400, 50)])
    assert settings.learning_rate_at(10, 0.25) == pytest.approx(0.75)
    cosine = settings.changed(decay="cosine")
    assert [cosine.learning_rate_at(10, done) for done in (0, 0.5, 1, 1.2)] == pytest.approx([1, 0.5, 0, 0])
    assert settings.changed(decay="none").learning_rate_at(10, 0.9) == 1


def test_noise_is_a_share() -> None:
    with pytest.raises(ConfigError, match=r"noise: expected less than 1, found 1\.5"):
        TrainingSettings(noise=1.5)
