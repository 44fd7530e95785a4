"""Small random ELMoForManyLangs models as files, and a slow twin that computes as the original modules do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

WORDS = ["<oov>", "<bos>", "<eos>", "<pad>", "das", "Haus", "\u3000"]
CHARACTERS = ["a", "d", "s", "H", "u", "日", "\u3000", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
FILTERS = [(1, 3), (2, 4), (3, 5)]
D, C, E, W = 6, 10, 4, 5
SENTENCE = ["das", "Haus", "日", "dada"]


def random_tensors(seed=0, n_highway=2, n_layers=2, word_dim=W):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return torch.tensor(0.7 * rng.standard_normal(shape), dtype=torch.float32)

    f = sum(count for _, count in FILTERS)
    embedder = {"char_emb_layer.embedding.weight": normal(len(CHARACTERS), E)}
    if word_dim:
        embedder["word_emb_layer.embedding.weight"] = normal(len(WORDS), word_dim)
    for i, (width, count) in enumerate(FILTERS):
        embedder[f"convolutions.{i}.weight"], embedder[f"convolutions.{i}.bias"] = (
            normal(count, E, width),
            normal(count),
        )
    for k in range(n_highway):
        embedder[f"highways._layers.{k}.weight"], embedder[f"highways._layers.{k}.bias"] = (
            normal(2 * f, f),
            normal(2 * f),
        )
    embedder["projection.weight"], embedder["projection.bias"] = normal(D, word_dim + f), normal(D)
    encoder = {}
    for side in ("forward", "backward"):
        for layer in range(n_layers):
            name = f"{side}_layer_{layer}"
            encoder[f"{name}.input_linearity.weight"] = normal(4 * C, D)
            encoder[f"{name}.state_linearity.weight"] = normal(4 * C, D)
            encoder[f"{name}.state_linearity.bias"] = normal(4 * C)
            encoder[f"{name}.state_projection.weight"] = normal(D, C)
    return embedder, encoder


def architecture(**token_embedder):
    return {
        "encoder": {"name": "elmo", "projection_dim": D, "cell_clip": 0.5, "proj_clip": 0.4, "dim": C, "n_layers": 2},
        "token_embedder": {
            "name": "cnn",
            "activation": "tanh",
            "filters": FILTERS,
            "n_highway": 2,
            "word_dim": W,
            "char_dim": E,
            "max_characters_per_token": 9,
        }
        | token_embedder,
    }


def write(folder: Path, embedder, encoder, config_path="cnn.json", files=(), legacy=True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("token_embedder.pkl", embedder), ("encoder.pkl", encoder)):
        torch.save(content, folder / name, _use_new_zipfile_serialization=not legacy)
    (folder / "config.json").write_text(json.dumps({"seed": 1, "config_path": config_path}))
    for name, content in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    (folder / "word.dic").write_text("".join(f"{word}\t{i}\n" for i, word in enumerate(WORDS)), encoding="utf-8")
    (folder / "char.dic").write_text("".join(f"{c}\t{i}\n" for i, c in enumerate(CHARACTERS)), encoding="utf-8")
    return folder


# ---- the twin


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def character_row(token, length):
    inner = [token] if token in ("<bos>", "<eos>") else list(token)[: length - 2]
    row = ["<eow>", *inner, "<bow>"]  # sic: the two marks are swapped
    row += ["<pad>"] * (length - len(row))
    return [CHARACTERS.index(c) if c in CHARACTERS else CHARACTERS.index("<oov>") for c in row]


def token_vector(token, p, length, activation):
    chars = p["char_emb_layer.embedding.weight"][character_row(token, length)]  # (M, e)
    pooled = []
    for i, (width, _) in enumerate(FILTERS):
        kernel = p[f"convolutions.{i}.weight"]  # (count, e, width)
        windows = [chars[s : s + width] for s in range(length - width + 1)]
        pooled.append(
            np.max([np.einsum("oew,we->o", kernel, w) for w in windows], axis=0) + p[f"convolutions.{i}.bias"]
        )
    x = activation(np.concatenate(pooled))
    for k in range(2):
        t, g = np.split(p[f"highways._layers.{k}.weight"] @ x + p[f"highways._layers.{k}.bias"], 2)
        x = sigmoid(g) * x + (1 - sigmoid(g)) * np.maximum(t, 0)
    word = p["word_emb_layer.embedding.weight"][WORDS.index(token) if token in WORDS else 0]
    return p["projection.weight"] @ np.concatenate([word, x]) + p["projection.bias"]


def read(tokens, embedder, encoder, length, activation, cell_clip, proj_clip):
    """(L + 1, n + 2, 2D), marks included."""
    p = {name: tensor.double().numpy() for name, tensor in {**embedder, **encoder}.items()}
    vectors = [token_vector(token, p, length, activation) for token in ("<bos>", *tokens, "<eos>")]
    sides = []
    for side, step in (("forward", 1), ("backward", -1)):
        inputs, outputs = vectors[::step], []
        for layer in range(2):
            name, c, m, result = f"{side}_layer_{layer}", np.zeros(C), np.zeros(D), []
            for x in inputs:
                gates = p[f"{name}.input_linearity.weight"] @ x + p[f"{name}.state_linearity.weight"] @ m
                i, f, g, o = np.split(gates + p[f"{name}.state_linearity.bias"], 4)
                c = np.clip(sigmoid(i) * np.tanh(g) + sigmoid(f) * c, -cell_clip, cell_clip)
                m = np.clip(p[f"{name}.state_projection.weight"] @ (sigmoid(o) * np.tanh(c)), -proj_clip, proj_clip)
                result.append(m + x if layer else m)
            outputs.append(result[::step])
            inputs = result
        sides.append(outputs)
    layers = [[np.concatenate([v, v]) for v in vectors]]
    layers += [[np.concatenate(pair) for pair in zip(*both, strict=True)] for both in zip(*sides, strict=True)]
    return np.array(layers)


def embed(*arguments):
    """(L + 1, n, 2D) of the tokens alone."""
    return read(*arguments)[:, 1:-1]
