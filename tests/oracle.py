"""The slow, readable twin: ELMo in numpy, one token at a time, straight from the published file layout.

Nothing here is shared with the package: it reads `options` (the JSON object) and `weights` (dataset name to array),
as the specification writes them, and computes in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
Options = Mapping[str, Any]

BOS, EOS, BOW, EOW, PAD = 256, 257, 258, 259, 260  # raw ids


def character_row(word: str, length: int) -> list[int]:
    """Raw ids, not shifted."""
    if word in ("<S>", "</S>"):
        inner = [BOS if word == "<S>" else EOS]
    else:
        inner = list(word.encode("utf-8", "ignore"))[: length - 2]
    row = [BOW, *inner, EOW]
    return row + [PAD] * (length - len(row))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def token_vector(word: str, options: Options, weights: Weights, vocabulary: Sequence[str] = ()) -> np.ndarray:
    """(D,)"""
    if "char_cnn" not in options:
        return weights["embedding"][vocabulary.index(word if word in vocabulary else "<UNK>")].astype(float)
    cnn = options["char_cnn"]
    table = weights["char_embed"].astype(float)
    characters = [table[i] for i in character_row(word, cnn["max_characters_per_token"])]
    pooled: list[float] = []
    for i, (width, count) in enumerate(cnn["filters"]):
        kernel = weights[f"CNN/W_cnn_{i}"].astype(float)[0]  # (width, e, count)
        bias = weights[f"CNN/b_cnn_{i}"].astype(float)
        best = np.full(count, -np.inf)
        for start in range(len(characters) - width + 1):
            answer = sum(characters[start + k] @ kernel[k] for k in range(width)) + bias
            best = np.maximum(best, answer)
        pooled.extend(np.tanh(best) if cnn["activation"] == "tanh" else np.maximum(best, 0))
    x = np.array(pooled)
    for k in range(cnn.get("n_highway") or 0):
        part = {
            n: weights[f"CNN_high_{k}/{n}"].astype(float) for n in ("W_carry", "b_carry", "W_transform", "b_transform")
        }
        gate = sigmoid(x @ part["W_carry"] + part["b_carry"])
        x = gate * np.maximum(x @ part["W_transform"] + part["b_transform"], 0) + (1 - gate) * x
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"].astype(float) + weights["CNN_proj/b_proj"].astype(float)
    return x


def lstm_name(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def lstm_step(
    x: np.ndarray, c: np.ndarray, m: np.ndarray, options: Options, weights: Weights, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """(D,), (C,), (D,) to the new c and m."""
    lstm = options["lstm"]
    i, j, f, o = np.split(np.concatenate([x, m]) @ weights[f"{name}/W_0"].astype(float) + weights[f"{name}/B"], 4)
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    if lstm.get("cell_clip"):
        c = np.clip(c, -lstm["cell_clip"], lstm["cell_clip"])
    m = sigmoid(o) * np.tanh(c)
    if f"{name}/W_P_0" in weights:
        m = m @ weights[f"{name}/W_P_0"].astype(float)
        if lstm.get("proj_clip"):
            m = np.clip(m, -lstm["proj_clip"], lstm["proj_clip"])
    return c, m


class OracleState(dict):
    """(direction, layer) to (c, m)."""


def embed(
    tokens: Sequence[str], options: Options, weights: Weights, state: OracleState | None = None,
    vocabulary: Sequence[str] = (),
) -> np.ndarray:  # fmt: skip
    """(L + 1, n, 2D) of one sentence. `state` (zero if empty) is where it starts from, and is left where it ends."""
    lstm = options["lstm"]
    state = OracleState() if state is None else state
    vectors = [token_vector(word, options, weights, vocabulary) for word in ("<S>", *tokens, "</S>")]
    layers = [np.stack([np.concatenate([v, v]) for v in vectors])]
    directions = []
    for direction in (0, 1):
        inputs = vectors if direction == 0 else vectors[::-1]
        outputs = []
        for layer in range(lstm["n_layers"]):
            zero = (np.zeros(lstm["dim"]), np.zeros(lstm["projection_dim"]))
            c, m = state.get((direction, layer), zero)
            result = []
            for x in inputs:
                c, m = lstm_step(x, c, m, options, weights, lstm_name(direction, layer))
                result.append(m + x if layer > 0 and lstm.get("use_skip_connections") else m)
            state[direction, layer] = (c, m)
            outputs.append(result if direction == 0 else result[::-1])
            inputs = result
        directions.append(outputs)
    for forward, backward in zip(*directions, strict=True):
        layers.append(np.stack([np.concatenate(pair) for pair in zip(forward, backward, strict=True)]))
    return np.stack(layers)[:, 1:-1]


def random_model(
    rng: np.random.Generator, *, dim: int = 12, projection_dim: int = 6, n_layers: int = 2, cell_clip: float | None = 3,
    proj_clip: float | None = 3, skip: bool = True, n_highway: int = 1, activation: str = "relu", e: int = 4,
    filters: Sequence[Sequence[int]] = ((1, 3), (2, 4), (3, 5)), max_characters: int = 50, n_words: int = 0,
    scale: float = 1.0,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:  # fmt: skip
    """Options and weights in the published layout; `n_words` makes a word-input model without characters."""

    def normal(*shape: int) -> np.ndarray:
        # matrices by their fan-in, so that vectors stay near 1 and a carried state is no amplifier of rounding errors
        fan_in = int(np.prod(shape[:-1])) if len(shape) > 1 and shape[0] != 261 else 1
        return (scale * rng.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)

    options: dict[str, Any] = {
        "lstm": {
            "dim": dim, "projection_dim": projection_dim, "n_layers": n_layers, "cell_clip": cell_clip,
            "proj_clip": proj_clip, "use_skip_connections": skip,
        }
    }  # fmt: skip
    weights: dict[str, np.ndarray] = {}
    if n_words:
        weights["embedding"] = normal(n_words, projection_dim)
    else:
        options["char_cnn"] = {
            "embedding": {"dim": e}, "filters": [list(f) for f in filters], "n_highway": n_highway,
            "activation": activation, "max_characters_per_token": max_characters, "n_characters": 262,
        }  # fmt: skip
        weights["char_embed"] = normal(261, e)
        for i, (width, count) in enumerate(filters):
            weights[f"CNN/W_cnn_{i}"], weights[f"CNN/b_cnn_{i}"] = normal(1, width, e, count), normal(count)
        total = sum(count for _, count in filters)
        for k in range(n_highway):
            for gate in ("carry", "transform"):
                weights[f"CNN_high_{k}/W_{gate}"], weights[f"CNN_high_{k}/b_{gate}"] = (
                    normal(total, total),
                    normal(total),
                )
        if total != projection_dim:
            weights["CNN_proj/W_proj"], weights["CNN_proj/b_proj"] = (
                normal(total, projection_dim),
                normal(projection_dim),
            )
    for direction in (0, 1):
        for layer in range(n_layers):
            name = lstm_name(direction, layer)
            weights[f"{name}/W_0"], weights[f"{name}/B"] = normal(2 * projection_dim, 4 * dim), normal(4 * dim)
            if projection_dim < dim:
                weights[f"{name}/W_P_0"] = normal(dim, projection_dim)
    return options, weights
