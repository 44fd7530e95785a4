"""options.json: what is published, what is missing from it, and what cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elmokit.config import PUBLISHED_FILTERS, CharCnnConfig, LstmConfig, ModelConfig
from elmokit.errors import ConfigError

PUBLISHED: dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True, "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu", "filters": [list(f) for f in PUBLISHED_FILTERS], "n_highway": 2,
        "embedding": {"dim": 16}, "n_characters": 262, "max_characters_per_token": 50,
    },
}  # fmt: skip


def changed(section: str, **values: Any) -> dict[str, Any]:
    return {**PUBLISHED, section: {**PUBLISHED[section], **values}}


def test_published_options_are_the_defaults() -> None:
    assert ModelConfig.from_options(PUBLISHED) == ModelConfig()
    assert ModelConfig().vector_dim == 1024 and ModelConfig().n_vectors == 3


def test_261_and_262_mean_the_same() -> None:
    assert ModelConfig.from_options(changed("char_cnn", n_characters=261)) == ModelConfig()


def test_missing_keys_have_the_defaults_of_the_published_reader() -> None:
    lstm = {"dim": 8, "projection_dim": 4}
    config = ModelConfig.from_options({"lstm": lstm, "char_cnn": {"filters": [[1, 3]]}})
    assert config.lstm == LstmConfig(
        dim=8, projection_dim=4, n_layers=1, cell_clip=None, proj_clip=None, skip_connections=False
    )
    assert config.char_cnn == CharCnnConfig(filters=((1, 3),), n_highway=0)


@pytest.mark.parametrize("clip", [None, 0])
def test_no_clip(clip: float | None) -> None:
    assert ModelConfig.from_options(changed("lstm", cell_clip=clip, proj_clip=clip)).lstm.cell_clip is None


def test_unknown_keys_are_kept_and_ignored() -> None:
    options = changed("lstm", reverse=True) | {"projection_after_highway": False, "n_tokens_vocab": 793471}
    config = ModelConfig.from_options(options)
    assert config.lstm == LstmConfig()
    assert config.extra == {"projection_after_highway": False, "n_tokens_vocab": 793471}
    assert config.to_options()["n_tokens_vocab"] == 793471


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(),
        ModelConfig(lstm=LstmConfig(dim=8, projection_dim=8, cell_clip=None), state="reset"),
        ModelConfig(char_cnn=None, n_words=7, word_dim=512),
        ModelConfig(char_cnn=CharCnnConfig(alphabet="code points", n_characters=99), n_words=7, word_dim=100),
    ],
)
def test_round_trip(config: ModelConfig) -> None:
    assert ModelConfig.from_json(json.dumps(config.to_options())) == config


def test_derived_sizes() -> None:
    assert CharCnnConfig().n_filters == 2048
    assert ModelConfig().has_token_projection
    square = ModelConfig(lstm=LstmConfig(dim=9, projection_dim=5), char_cnn=CharCnnConfig(filters=((1, 2), (2, 3))))
    assert not square.has_token_projection
    assert not ModelConfig(char_cnn=None, n_words=7, word_dim=512).has_token_projection
    assert not LstmConfig(dim=8, projection_dim=8).has_projection


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "options: expected a JSON object, found list"),
        ({}, "expected an object under 'lstm', found None"),
        ({"lstm": PUBLISHED["lstm"]}, "char_cnn: expected present"),
        (changed("lstm", dim=0), "lstm.dim: expected a positive integer, found 0"),
        (changed("lstm", dim="big"), "lstm.dim: expected an integer, found 'big'"),
        (changed("lstm", dim=True), "lstm.dim: expected an integer"),
        (changed("lstm", dim=float("inf")), "lstm.dim: expected an integer, found inf"),
        (changed("lstm", dim=float("nan")), "lstm.dim: expected an integer, found nan"),
        (changed("lstm", dim=10**400), "lstm.dim: expected an integer, found 1000"),
        (changed("lstm", dim=256), "lstm.projection_dim: expected at most lstm.dim = 256"),
        (changed("lstm", n_layers=0), "lstm.n_layers"),
        (changed("lstm", cell_clip=-1), "lstm.cell_clip: expected a positive number"),
        (changed("lstm", cell_clip="3"), "lstm.cell_clip: expected a number or null"),
        (changed("lstm", proj_clip=10**400), "lstm.proj_clip: expected a number or null"),
        (changed("lstm", use_skip_connections="false"), "use_skip_connections: expected true or false, found 'false'"),
        (changed("char_cnn", activation="gelu"), "char_cnn.activation: expected relu or tanh, found 'gelu'"),
        (changed("char_cnn", filters=[[1]]), "char_cnn.filters"),
        (changed("char_cnn", filters=[]), "char_cnn.filters"),
        (changed("char_cnn", filters=3), "char_cnn.filters"),
        (changed("char_cnn", filters=[[float("inf"), 3]]), "char_cnn.filters: .* pairs of integers, found"),
        (changed("char_cnn", filters=[[1.5, 3]]), "char_cnn.filters: .* pairs of integers, found"),
        (changed("char_cnn", max_characters_per_token=5), "at least 7"),
        (changed("char_cnn", max_characters_per_token=10**12), "at most 4096, found 1000"),
        (changed("char_cnn", embedding=16), "expected an object under 'embedding'"),
        (PUBLISHED | {"elmokit": {"state": "cold"}}, "elmokit.state: expected reset, warm, carry, found 'cold'"),
    ],
)
def test_options_that_cannot_be(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ModelConfig.from_options(options)


@pytest.mark.parametrize("text", ["", "{", b"\xff\xfe", "not json", "[" * 100_000])
def test_text_that_is_no_json(text: str | bytes) -> None:
    with pytest.raises(ConfigError, match="expected JSON"):
        ModelConfig.from_json(text)
