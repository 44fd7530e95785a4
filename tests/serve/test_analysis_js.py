"""What the page computes besides vectors, against numpy: winning n-grams, neighbors, components, clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from elmokit import weights
from elmokit.text.characters import ByteCharacters
from elmokit.weights import Model

ASK = "async ([call, argument]) => (await import('./backend.js')).openBackend(() => {}).then((b) => b[call](argument))"
MAP = """async ([layers, weights, k]) => {
  const { grams, mixGram, components, clusters } = await import('./draw/pca.js');
  const gram = mixGram(grams(layers.map((points) => points.map((point) => Float32Array.from(point)))), weights);
  return { ...components(gram), of: clusters(gram, k) };
}"""


@pytest.fixture(scope="module")
def model() -> Model:
    return weights.load()


def pooled(model: Model, word: str) -> tuple[np.ndarray, np.ndarray]:
    """The largest answer of every filter, after relu, and where it was; place by place."""
    parameters = {name: tensor.numpy() for name, tensor in model.bilm.state_dict().items()}
    characters = parameters["token_encoder.char_embedding"][ByteCharacters(50).encode([word])[0]]
    values, starts = [], []
    for k, (width, _) in enumerate(model.config.char_cnn.filters):
        kernel = parameters[f"token_encoder.convolutions.{k}.weight"]
        places = np.stack([characters[p : p + width].ravel() @ kernel for p in range(50 - width + 1)])
        values.append(np.maximum(places.max(axis=0) + parameters[f"token_encoder.convolutions.{k}.bias"], 0))
        starts.append(places.argmax(axis=0))
    return np.concatenate(values), np.concatenate(starts)


def test_the_winning_n_grams(watched: Any, model: Model) -> None:
    page = watched().ready()
    for word in ("beautifully", "naïve"):
        found = page.evaluate(ASK, ["explain", {"word": word}])
        values, starts = pooled(model, word)
        assert np.allclose(found["activations"], values, atol=1e-5)
        assert np.mean(np.array(found["starts"]) == starts) > 0.99  # but for ties among the padding
        assert found["widths"] == [width for width, count in model.config.char_cnn.filters for _ in range(count)]
        assert "".join(symbol["text"] for symbol in found["symbols"]) == f"^{word}$"
        assert len(found["symbols"]) == len(word.encode()) + 2


def test_neighbors(watched: Any, model: Model) -> None:
    page = watched().ready()
    found = page.evaluate(ASK, ["neighbors", {"word": "play", "top": 5}])
    candidates = [word for word in model.vocabulary[3:10010] if any(c.isalpha() for c in word)][:5000]
    chosen = ["play", *candidates]
    with torch.inference_mode():
        vectors = model.bilm.token_encoder(torch.from_numpy(ByteCharacters(50).encode(chosen)), None).numpy()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = vectors[1:] @ vectors[0]
    similarity[candidates.index("play")] = -1
    best = np.argsort(-similarity)[:5]
    assert [one["word"] for one in found["neighbors"]] == [candidates[k] for k in best]
    assert np.allclose([one["similarity"] for one in found["neighbors"]], similarity[best], atol=1e-4)


def test_components_and_clusters(watched: Any) -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], 10)
    layers = rng.normal(size=(3, 30, 12)) + np.array([[8, 0], [0, 5], [-8, 0]])[groups] @ rng.normal(size=(2, 12))
    shares = [0.2, 0.5, 0.3]
    found = watched().page.evaluate(MAP, [layers.tolist(), shares, 3])
    mixed = np.tensordot(shares, layers, axes=1)
    left, size, _ = np.linalg.svd(mixed - mixed.mean(axis=0), full_matrices=False)
    assert np.allclose(np.abs(found["points"]), np.abs(left[:, :2] * size[:2]), atol=1e-2)
    assert np.allclose(found["shares"], size[:2] ** 2 / (size**2).sum(), atol=1e-4)
    assert len({(a, b) for a, b in zip(groups.tolist(), found["of"], strict=True)}) == 3


def test_purity_of_clusters(watched: Any) -> None:
    run = """async ([of, labels]) => {
      const { purity, shuffledPurity } = await import('./draw/pca.js');
      return [purity(of, labels), shuffledPurity(of, labels), shuffledPurity(of, labels)];
    }"""
    page, senses = watched().page, ["money"] * 18 + ["river"] * 18
    right, shuffled, again = page.evaluate(run, [[0] * 17 + [1] * 19, senses])
    assert right == 35 and shuffled == again == sorted(shuffled) and len(shuffled) == 200
    rng = np.random.default_rng(0)
    expected = [2 * max(k, 18 - k) for k in rng.hypergeometric(18, 18, 18, size=10_000)]  # two clusters of 18
    _, shuffled, _ = page.evaluate(run, [[0] * 18 + [1] * 18, senses])
    assert abs(np.mean(shuffled) - np.mean(expected)) < 0.5 and max(shuffled) < 32
