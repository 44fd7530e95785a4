"""Excerpts in the style of old projects that use AllenNLP's ELMo; only the import lines are ours."""

from __future__ import annotations

import copy
import importlib
import io
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from published_model import Published
from torch import nn

from elmokit.integrations.allennlp import (
    Elmo,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    ScalarMix,
    _ElmoBiLm,
    _ElmoCharacterEncoder,
    batch_to_ids,
    remove_sentence_boundaries,
)
from elmokit.weights import load

SENTENCES = [["The", "cat", "sat", "."], ["Ja"]]


@pytest.fixture
def model(tmp_path: Path) -> Published:
    return Published(tmp_path)


def same(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(torch.as_tensor(found).detach(), torch.as_tensor(expected).detach(), atol=tolerance)


class Tagger(nn.Module):
    """A task model with ELMo inside."""

    def __init__(self, files: tuple[str, str], **arguments: Any) -> None:
        super().__init__()
        self.elmo = Elmo(*files, num_output_representations=1, dropout=0.0, **arguments)
        self.lstm = nn.LSTM(self.elmo.get_output_dim(), 4, batch_first=True, bidirectional=True)
        self.out = nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor, words: torch.Tensor | None = None) -> torch.Tensor:
        output = self.elmo(ids, words)
        encoded, _ = self.lstm(output["elmo_representations"][0])
        scores: torch.Tensor = self.out(encoded)
        return scores.masked_fill((1 - output["mask"]).bool().unsqueeze(-1), 0.0)


def test_1_freezing_all_but_the_top_layer_by_name(model: Published) -> None:
    tagger = Tagger(model.files, requires_grad=True)
    for name, parameter in tagger.named_parameters():
        if "elmo" in name and "_layer_1" not in name and "scalar_mix" not in name:
            parameter.requires_grad = False
    trained = [
        name for name, parameter in tagger.named_parameters() if parameter.requires_grad and "_elmo_lstm" in name
    ]
    assert len(trained) == 8 and all("layer_1." in name for name in trained)
    before = {name: parameter.clone() for name, parameter in tagger.named_parameters()}
    optimizer = torch.optim.SGD([p for p in tagger.parameters() if p.requires_grad], lr=0.5)
    tagger(batch_to_ids(SENTENCES)).square().sum().backward()
    optimizer.step()
    changed = {name for name, p in tagger.named_parameters() if not torch.equal(p, before[name])}
    assert {name for name in changed if "_elmo_lstm" in name} == {*trained}


def test_2_freezing_the_character_encoder_by_prefix_and_two_learning_rates(model: Published) -> None:
    tagger = Tagger(model.files, requires_grad=True)
    bilm = tagger.elmo._elmo_lstm
    names = [name for name, _ in bilm.named_parameters()]
    assert names[0] == "_token_embedder._char_embedding_weights"
    for expected in ("char_conv_0.weight", "_highways._layers.0.bias", "_projection.weight"):
        assert f"_token_embedder.{expected}" in names
    for side in ("forward", "backward"):
        for part in ("input_linearity.weight", "state_linearity.bias", "state_projection.weight"):
            assert f"_elmo_lstm.{side}_layer_0.{part}" in names
    for n in range(len(bilm._token_embedder._convolutions)):
        for parameter in getattr(bilm._token_embedder, f"char_conv_{n}").parameters():
            parameter.requires_grad = False
    slow = [p for n, p in tagger.named_parameters() if "_elmo_lstm" in n and p.requires_grad]
    fast = [p for n, p in tagger.named_parameters() if "_elmo_lstm" not in n]
    torch.optim.Adam([{"params": slow, "lr": 1e-5}, {"params": fast, "lr": 1e-3}])
    tagger(batch_to_ids(SENTENCES)).sum().backward()
    assert bilm._token_embedder.char_conv_0.weight.grad is None
    assert bilm._token_embedder._char_embedding_weights.grad is not None


def test_3_hooks_that_collect_layers(model: Published) -> None:
    elmo = Elmo(*model.files, 1, dropout=0.0)
    seen: dict[str, Any] = {}
    elmo._elmo_lstm._token_embedder.register_forward_hook(lambda m, i, o: seen.update(tokens=o["token_embedding"]))
    elmo._elmo_lstm._elmo_lstm.register_forward_hook(lambda m, i, o: seen.update(layers=o, mask=i[1]))
    elmo._elmo_lstm._elmo_lstm.backward_layer_1.register_forward_hook(lambda m, i, o: seen.update(top=o[0]))
    elmo._elmo_lstm._token_embedder._highways.register_forward_hook(lambda m, i, o: seen.update(features=o))
    elmo(batch_to_ids(SENTENCES))
    expected = model.embed(SENTENCES[0])
    same(seen["tokens"][0, 1:5], expected[0][:, :6])
    layers, _ = remove_sentence_boundaries(seen["layers"][1], seen["mask"])
    same(layers[0], expected[2])
    assert seen["top"].shape == (2, 6, 6) and seen["features"].shape[1] > 6


def test_4_calling_the_inner_lstm_and_replacing_it(model: Published) -> None:
    bilm = _ElmoBiLm(*model.files)
    tokens = bilm._token_embedder(batch_to_ids(SENTENCES))
    layers = bilm._elmo_lstm(tokens["token_embedding"], tokens["mask"])  # (L, B, T + 2, 2D)
    same(layers[0, 0, 1:5], model.embed(SENTENCES[0])[1])

    class Doubled(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return 2 * self.inner(inputs, mask)

    bilm._elmo_lstm.reset_states()
    bilm._elmo_lstm = Doubled(bilm._elmo_lstm)
    same(bilm(batch_to_ids(SENTENCES))["activations"][1], 2 * layers[0])


def test_5_replacing_the_mix(model: Published) -> None:
    elmo = Elmo(*model.files, 2, dropout=0.0)
    top = ScalarMix(elmo._elmo_lstm.num_layers, initial_scalar_parameters=[-9e10, -9e10, 1], trainable=False)
    elmo.scalar_mix_0 = top
    first, second = elmo(batch_to_ids(SENTENCES))["elmo_representations"]
    same(first[0], model.embed(SENTENCES[0])[2])
    same(second[0], model.embed(SENTENCES[0]).mean(axis=0))
    assert elmo._scalar_mixes[0] is top and "scalar_mix_0.gamma" in elmo.state_dict()


@pytest.mark.parametrize("cached", [False, True])
def test_6_replicas_of_data_parallel_use_their_own_weights(
    model: Published, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    """torch's own `replicate`; only the copying to GPUs is replaced, by copying in memory."""
    torch_replicate = importlib.import_module("torch.nn.parallel.replicate")

    def copied(tensors: list[torch.Tensor], devices: list[int], detach: bool = False) -> list[list[torch.Tensor]]:
        return [[tensor.clone() for tensor in tensors] for _ in devices]

    monkeypatch.setattr(torch_replicate, "_broadcast_coalesced_reshape", copied)
    tagger = Tagger(model.files, vocab_to_cache=["", "The", "cat", "sat", ".", "Ja"])
    ids = batch_to_ids(SENTENCES)
    words = torch.tensor([[1, 2, 3, 4], [5, 0, 0, 0]]) if cached else None
    expected = tagger(ids, words)
    tagger.elmo._elmo_lstm._elmo_lstm.reset_states()
    replicas = torch_replicate.replicate(tagger, [0, 1])
    assert not list(replicas[0].parameters())  # copies are tensors
    for tensor in (*tagger.parameters(), *tagger.buffers()):  # the original changes; replicas must not see it
        tensor.data.fill_(9)
    read: list[str] = []
    replicas[0].elmo._elmo_lstm._token_embedder.register_forward_hook(lambda *_: read.append("characters"))
    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(lambda replica: replica(ids, words), replicas):
            same(found, expected)
    assert bool(read) is not cached


def test_7_pickling_and_deep_copies(model: Published) -> None:
    elmo = Elmo(*model.files, 1, dropout=0.0)
    expected = elmo(batch_to_ids(SENTENCES))["elmo_representations"][0]
    buffer = io.BytesIO()
    torch.save(elmo, buffer)
    buffer.seek(0)
    for twin in (copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo)), torch.load(buffer, weights_only=False)):
        twin._elmo_lstm._elmo_lstm.reset_states()
        same(twin(batch_to_ids(SENTENCES))["elmo_representations"][0], expected)


def test_8_checkpoints_with_the_old_names(model: Published, tmp_path: Path) -> None:
    tagger = Tagger(model.files)
    tagger.elmo.scalar_mix_0.gamma.data.fill_(0.5)
    torch.save(tagger.state_dict(), tmp_path / "best.th")
    state = torch.load(tmp_path / "best.th", weights_only=True)
    assert "elmo._elmo_lstm._elmo_lstm.forward_layer_0.input_linearity.weight" in state
    (tmp_path / "other").mkdir()
    other = Tagger(Published(tmp_path / "other", scale=0.2).files)
    other.load_state_dict(state)
    same(other(batch_to_ids(SENTENCES)), tagger(batch_to_ids(SENTENCES)))
    # pretrained weights are left out of checkpoints to save space
    small = {name: tensor for name, tensor in state.items() if "_elmo_lstm" not in name}
    missing, unexpected = Tagger(model.files).load_state_dict(small, strict=False)
    assert not unexpected and all("_elmo_lstm" in name for name in missing)
    # and the file is a model to the rest of elmokit
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "options.json").write_text(json.dumps(model.options))
    torch.save(tagger.state_dict(), tmp_path / "weights" / "best.th")
    assert load(tmp_path / "weights").mixes[0].gamma == 0.5


def test_9_cached_vocabulary(model: Published) -> None:
    words = ["@@PADDING@@", "@@UNKNOWN@@", "The", "cat", "sat", ".", "Ja"]
    cached = Elmo(*model.files, 1, dropout=0.0, vocab_to_cache=words)
    word_ids = torch.tensor([[2, 3, 4, 5], [6, 0, 0, 0]])
    expected = Elmo(*model.files, 1, dropout=0.0)(batch_to_ids(SENTENCES))
    for arguments in ((word_ids, word_ids), (batch_to_ids(SENTENCES), word_ids)):
        cached._elmo_lstm._elmo_lstm.reset_states()
        output = cached(*arguments)
        same(output["elmo_representations"][0], expected["elmo_representations"][0])
        assert torch.equal(output["mask"], expected["mask"])
    table = cached._elmo_lstm._word_embedding.weight
    assert table.shape == (7, 6) and not table[0].any()
    encoder = _ElmoCharacterEncoder(*model.files)
    same(cached._elmo_lstm._bos_embedding, encoder(batch_to_ids([["x"]]))["token_embedding"][0, 0])
    deep = cached(word_ids.view(2, 1, 4), word_ids.view(2, 1, 4))
    assert deep["mask"].shape == (2, 1, 4)


def test_10_probing_code_that_reads_the_hdf5_file(model: Published, tmp_path: Path) -> None:
    text, vectors = tmp_path / "in.txt", tmp_path / "out.hdf5"
    text.write_text("The cat sat .\nJa\n")
    with open(text) as file:
        ElmoEmbedder(options_file=model.files[0], weight_file=model.files[1]).embed_file(file, str(vectors), "all")
    with h5py.File(vectors, "r") as h5:
        index = json.loads(h5.get("sentence_to_index")[0])
        for sentence, key in index.items():
            embeddings = h5.get(key)
            for layer in range(3):
                assert embeddings[layer].shape == (len(sentence.split()), 12)
            same(embeddings[...], model.embed(sentence.split()))


def test_11_sentence_vectors_without_state(model: Published) -> None:
    embedder = ElmoEmbedder(*model.files)
    embedder.elmo_bilm._elmo_lstm.stateful = False
    assert isinstance(embedder.indexer, ELMoTokenCharactersIndexer)
    for _ in range(2):
        vectors, mask = embedder.batch_to_embeddings(SENTENCES)
        mean = (vectors * mask.float().unsqueeze(1).unsqueeze(-1)).sum(dim=2) / mask.sum(dim=1).view(-1, 1, 1).float()
        same(mean[1], model.embed(SENTENCES[1]).mean(axis=1))
    lengths = [len(vectors[0]) for vectors in embedder.embed_sentences(iter(SENTENCES), batch_size=1)]
    assert lengths == [4, 1]


def test_12_documents_as_batches_of_sentences_with_a_random_baseline(model: Published) -> None:
    embedder = ElmoTokenEmbedder(*model.files, dropout=0.0, projection_dim=5)
    documents = torch.stack([batch_to_ids([*SENTENCES, []]), batch_to_ids([["a"], [], ["b", "c", "d", "e"]])])
    assert embedder(documents).shape == (2, 3, 4, 5)
    before = embedder._elmo(documents)["elmo_representations"][0]
    for module in embedder._elmo._elmo_lstm._elmo_lstm.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight.data)  # by `.data`, as old code does
    embedder._elmo._elmo_lstm._elmo_lstm.reset_states()
    assert (embedder._elmo(documents)["elmo_representations"][0] - before).abs().max() > 1e-2
