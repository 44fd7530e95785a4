"""The AllenNLP drop-in: its signatures, its state, its values against the oracle and against the published fixture."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from oracle import OracleState, character_row, lstm_name, token_vector
from published_model import Published

from elmokit.errors import ConfigError, InputError
from elmokit.integrations import allennlp
from elmokit.integrations.allennlp import (
    Elmo,
    ElmoEmbedder,
    ElmoTokenEmbedder,
    ScalarMix,
    _ElmoBiLm,
    _ElmoCharacterEncoder,
    add_sentence_boundary_token_ids,
    batch_to_ids,
    remove_sentence_boundaries,
)
from elmokit.weights import load

BATCHES = [
    [["The", "cat", "sat", "."], ["Ja"], ["naïve", "<S>", "x" * 70]],
    [["one", "two"]],
    [["a", "b", "c"], ["<UNK>", "d"], [], ["e", "f", "g", "h", "i"]],
    [["The", "cat", "sat", "."], ["again"]],
]


@pytest.fixture
def model(tmp_path: Path) -> Published:
    return Published(tmp_path)


def close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    actual = actual.detach().numpy() if isinstance(actual, torch.Tensor) else actual
    np.testing.assert_allclose(actual, expected, atol=tolerance, rtol=0)


# What AllenNLP documents, parameter by parameter.
OPTIONS = (
    "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/"
    "elmo_2x4096_512_2048cnn_2xhighway_options.json"
)
WEIGHTS = OPTIONS.replace("options.json", "weights.hdf5")
SIGNATURES = {
    "Elmo": "options_file, weight_file, num_output_representations, requires_grad=False, do_layer_norm=False, "
    "dropout=0.5, vocab_to_cache=None, keep_sentence_boundaries=False, scalar_mix_parameters=None, module=None",
    "Elmo.forward": "inputs, word_inputs=None",
    "ElmoTokenEmbedder": f"options_file={OPTIONS!r}, weight_file={WEIGHTS!r}, do_layer_norm=False, dropout=0.5, "
    "requires_grad=False, projection_dim=None, vocab_to_cache=None, scalar_mix_parameters=None",
    "ElmoTokenEmbedder.forward": "elmo_tokens, word_inputs=None",
    "_ElmoBiLm": "options_file, weight_file, requires_grad=False, vocab_to_cache=None",
    "_ElmoBiLm.forward": "inputs, word_inputs=None",
    "_ElmoBiLm.create_cached_cnn_embeddings": "tokens",
    "_ElmoCharacterEncoder": "options_file, weight_file, requires_grad=False",
    "_ElmoCharacterEncoder.forward": "inputs",
    "ScalarMix": "mixture_size, do_layer_norm=False, initial_scalar_parameters=None, trainable=True",
    "ScalarMix.forward": "tensors, mask=None",
    "ElmoEmbedder": f"options_file={OPTIONS!r}, weight_file={WEIGHTS!r}, cuda_device=-1",
    "ElmoEmbedder.batch_to_embeddings": "batch",
    "ElmoEmbedder.embed_sentence": "sentence",
    "ElmoEmbedder.embed_batch": "batch",
    "ElmoEmbedder.embed_sentences": "sentences, batch_size=64",
    "ElmoEmbedder.embed_file": "input_file, output_file_path, output_format='all', batch_size=64, "
    "forget_sentences=False, use_sentence_keys=False",
    "batch_to_ids": "batch",
    "remove_sentence_boundaries": "tensor, mask",
    "add_sentence_boundary_token_ids": "tensor, mask, sentence_begin_token, sentence_end_token",
}


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures_are_those_of_allennlp(path: str) -> None:
    target: Any = allennlp
    for name in path.split("."):
        target = getattr(target, name)
    found = [p.replace(annotation=p.empty) for n, p in inspect.signature(target).parameters.items() if n != "self"]
    assert ", ".join(map(str, found)) == SIGNATURES[path]


def test_batch_to_ids_by_hand() -> None:
    ids = batch_to_ids([["Hi", "<S>"], ["</S>"], []])
    assert ids.shape == (3, 2, 50) and ids.dtype == torch.long
    pad = [261]
    assert ids[0, 0].tolist() == [259, ord("H") + 1, ord("i") + 1, 260] + pad * 46
    assert ids[0, 1].tolist() == [259, 257, 260] + pad * 47
    assert ids[1, 0].tolist() == [259, 258, 260] + pad * 47
    assert not ids[1, 1].any() and not ids[2].any()
    assert batch_to_ids([["é" * 40]])[0, 0].tolist() == [259, *[0xC3 + 1, 0xA9 + 1] * 24, 260]  # 48 bytes
    assert batch_to_ids([[]]).shape == (1, 0) and batch_to_ids([[], []]).shape == (2, 0)  # as AllenNLP
    assert torch.equal(batch_to_ids(iter([iter(["Hi", "<S>"]), iter(["</S>"]), ()])), ids)


def test_marks_come_and_go_by_hand() -> None:
    words = torch.tensor([[5, 6, 7], [8, 0, 0]])
    marked, mask = add_sentence_boundary_token_ids(words, words > 0, 1, 2)
    assert marked.tolist() == [[1, 5, 6, 7, 2], [1, 8, 2, 0, 0]]
    assert mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    rows = torch.stack((words, words), dim=-1)
    marked, mask = add_sentence_boundary_token_ids(rows, words > 0, torch.tensor([1, 0]), torch.tensor([0, 2]))
    assert marked[1].tolist() == [[1, 0], [8, 8], [0, 2], [0, 0], [0, 0]]
    assert mask[1].tolist() == [True] * 3 + [False] * 2
    back, inner = remove_sentence_boundaries(marked.float(), mask)
    assert torch.equal(back, rows.float()) and torch.equal(inner, words > 0)
    with pytest.raises(ValueError, match="found 4"):
        add_sentence_boundary_token_ids(torch.zeros(1, 1, 1, 1), torch.ones(1, 1), 1, 2)


@pytest.mark.parametrize(
    "shape", [{}, {"skip": False, "n_layers": 1, "cell_clip": None}, {"activation": "tanh", "n_highway": 2}]
)
def test_state_goes_from_call_to_call_row_by_row(tmp_path: Path, shape: dict[str, Any]) -> None:
    model = Published(tmp_path, **shape)
    elmo = Elmo(*model.files, 2, dropout=0.0)
    states = [OracleState() for _ in range(4)]
    for training, batch in zip((True, False, True, False), BATCHES, strict=True):
        elmo.train(training)
        output = elmo(batch_to_ids(batch))
        assert output.keys() == {"elmo_representations", "mask"}
        n_steps = max(map(len, batch))
        assert output["mask"].tolist() == [[t < len(sentence) for t in range(n_steps)] for sentence in batch]
        for vectors in output["elmo_representations"]:
            assert vectors.shape == (len(batch), n_steps, elmo.get_output_dim())
            assert not vectors[~output["mask"]].any()
        for row, sentence in enumerate(batch):
            expected = model.embed(sentence, states[row]).mean(axis=0)
            for vectors in output["elmo_representations"]:
                close(vectors[row, : len(sentence)], expected)
    assert not any("states" in name for name in elmo.state_dict())


def test_state_can_be_reset_switched_off_and_replaced(model: Published) -> None:
    bilm = _ElmoBiLm(*model.files)
    ids = batch_to_ids(BATCHES[0])
    first, second = bilm(ids)["activations"], bilm(ids)["activations"]
    close(second[0], first[0])  # no context, no state
    assert (second[2] - first[2]).abs().max() > 1e-3
    lstm = bilm._elmo_lstm
    kept = lstm._states
    assert [tuple(state.shape) for state in kept] == [(2, 3, 12), (2, 3, 24)]
    lstm.reset_states()
    close(bilm(ids)["activations"][2], first[2])
    lstm._states = tuple(state.clone() for state in kept)  # as flair does
    lstm.reset_states(torch.tensor([True, False, False]))
    mixed, third = bilm(ids)["activations"], [model.embed(BATCHES[0][0]), None]
    close(mixed[2][0, 1:5], third[0][2])
    assert (mixed[2][1] - first[2][1]).abs().max() > 1e-3
    with pytest.raises(ValueError, match="each of 3 rows, found 2"):
        lstm.reset_states(torch.tensor([True, False]))
    lstm.stateful = False
    for _ in range(2):
        close(bilm(ids)["activations"][2], first[2])


def test_state_does_not_hold_the_graph(model: Published) -> None:
    elmo = Elmo(*model.files, 1, requires_grad=True, dropout=0.0)
    for batch in BATCHES:  # a second backward pass through the first call's graph would fail
        elmo(batch_to_ids(batch))["elmo_representations"][0].sum().backward()
    assert not any(state.requires_grad for state in elmo._elmo_lstm._elmo_lstm._states)


def test_bilm_activations_with_marks(model: Published) -> None:
    bilm = _ElmoBiLm(*model.files)
    assert (bilm.num_layers, bilm.get_output_dim()) == (3, 12)
    output = bilm(batch_to_ids([["a", "b"], ["c"]]))
    assert len(output["activations"]) == 3
    assert output["mask"].tolist() == [[True] * 4, [True, True, True, False]]
    for layer, expected in zip(output["activations"], model.embed(["c"]), strict=True):
        close(layer[1, 1:2], expected)
        assert not layer[1, 3].any()
    begin = token_vector("<S>", model.options, model.weights)
    close(output["activations"][0][:, 0], np.tile(begin, (2, 2)))


def test_character_encoder(model: Published) -> None:
    for encoder in (_ElmoCharacterEncoder(*model.files), _ElmoBiLm(*model.files)._token_embedder):
        output = encoder(batch_to_ids([["a", "bc"], ["naïve"]]))
        for row, words in enumerate((("<S>", "a", "bc", "</S>"), ("<S>", "naïve", "</S>"))):
            expected = [token_vector(word, model.options, model.weights) for word in words]
            close(output["token_embedding"][row, : len(words)], np.stack(expected))
        assert output["mask"].tolist() == [[True] * 4, [True, True, True, False]]
        assert encoder.get_output_dim() == 6


def test_boundaries_are_kept_on_demand(model: Published) -> None:
    batch = batch_to_ids([["a", "b", "c"], ["d"]])
    kept = Elmo(*model.files, 1, dropout=0.0, keep_sentence_boundaries=True)(batch)
    removed = Elmo(*model.files, 1, dropout=0.0)(batch)
    assert kept["mask"].sum(dim=1).tolist() == [5, 3]
    (long,), (short,) = kept["elmo_representations"], removed["elmo_representations"]
    assert long.shape == (2, 5, 12) and short.shape == (2, 3, 12)
    close(long[0, 1:4], short[0].detach())
    close(long[1, 1:2], short[1, :1].detach())
    assert long[1, 2].any() and not long[1, 3:].any()  # the end mark, then padding


def test_more_dimensions_are_more_rows(model: Published) -> None:
    flat = batch_to_ids([["a", "b"], ["c"], ["d", "e"], ["f"], [], ["g", "h"]])
    expected = Elmo(*model.files, 1, dropout=0.0)(flat)
    output = Elmo(*model.files, 1, dropout=0.0)(flat.view(2, 3, 2, 50))
    assert output["mask"].shape == (2, 3, 2) and output["elmo_representations"][0].shape == (2, 3, 2, 12)
    close(output["elmo_representations"][0].flatten(0, 1), expected["elmo_representations"][0].detach())


def test_layer_norm_by_hand() -> None:
    # Tokens (1, 3) and (5, 7): mean 4, variance (9 + 1 + 1 + 9) / 4 = 5; the padding (100, 100) does not count.
    layer = torch.tensor([[[1.0, 3.0], [5.0, 7.0], [100.0, 100.0]]])
    mask = torch.tensor([[1, 1, 0]])  # old code has masks of integers
    mix = ScalarMix(2, do_layer_norm=True)
    mixed = mix([layer, 10 * layer], mask)  # the second layer has the same normal form
    close(mixed[0, :2], np.array([[-3, -1], [1, 3]]) / 5**0.5)
    flat = ScalarMix(1, do_layer_norm=True)([torch.full((1, 1, 2), 3.0)], torch.ones(1, 1))
    assert not flat.any()  # variance 0 is no division by 0


def test_layer_norm_counts_the_marks(model: Published) -> None:
    output = _ElmoBiLm(*model.files)(batch_to_ids([["a", "b"], ["c"]]))
    layers = [layer.numpy().astype(float) for layer in output["activations"]]
    mask = output["mask"].numpy()
    normal = [(layer - layer[mask].mean()) / layer[mask].std() for layer in layers]
    elmo = Elmo(*model.files, 1, do_layer_norm=True, dropout=0.0)
    (vectors,) = elmo(batch_to_ids([["a", "b"], ["c"]]))["elmo_representations"]
    close(vectors[0], np.mean(normal, axis=0)[0, 1:3], 1e-5)
    assert not vectors[1, 1].any()


def test_mixes_by_hand() -> None:
    layers = [torch.full((1, 1, 1), value) for value in (1.0, 2.0, 4.0)]
    mix = ScalarMix(3, initial_scalar_parameters=[0.0, np.log(2.0), np.log(5.0)])  # weights 1/8, 2/8, 5/8
    assert mix(layers).item() == pytest.approx(25 / 8)
    assert [p.shape for p in mix.scalar_parameters] == [(1,)] * 3 and mix.gamma.shape == (1,)
    assert sorted(mix.state_dict()) == ["gamma", *(f"scalar_parameters.{k}" for k in range(3))]
    mix.gamma.data.fill_(2)
    mix.scalar_parameters[2].data.fill_(-9e10)  # only layers 0 and 1 are left: 1/3, 2/3
    assert mix(layers).item() == pytest.approx(2 * 5 / 3)
    mix(layers).sum().backward()
    assert mix.gamma.grad is not None and all(p.grad is not None for p in mix.scalar_parameters)
    fixed = ScalarMix(3, trainable=False)
    assert not any(p.requires_grad for p in fixed.parameters())
    with pytest.raises(ConfigError, match="expected 3"):
        ScalarMix(3, initial_scalar_parameters=[0.0])
    with pytest.raises(ConfigError, match="expected 3"):
        mix(layers[:2])


def test_scalar_mix_parameters_choose_a_layer_and_stay(model: Published) -> None:
    elmo = Elmo(*model.files, 2, scalar_mix_parameters=[-9e10, 1, -9e10], dropout=0.0)
    for vectors in elmo(batch_to_ids([["a", "b"]]))["elmo_representations"]:
        close(vectors[0], model.embed(["a", "b"])[1])
    assert not any(parameter.requires_grad for parameter in elmo.parameters())


def test_gradient_flows_to_the_mixes_and_on_demand_to_the_bilm(model: Published) -> None:
    ids = batch_to_ids(BATCHES[0])
    for requires_grad in (False, True):
        elmo = Elmo(*model.files, 2, requires_grad=requires_grad)
        output = elmo(ids)["elmo_representations"]
        (output[0].square().sum() + output[1].sum()).backward()
        for name, parameter in elmo.named_parameters():
            expected = requires_grad or name.startswith("scalar_mix_")
            assert (parameter.grad is not None) == expected, name
            assert not expected or parameter.grad.abs().sum() > 0, name
    before = output[0].detach()
    torch.optim.SGD(elmo.parameters(), lr=0.01).step()
    elmo._elmo_lstm._elmo_lstm.reset_states()
    assert (elmo.eval()(ids)["elmo_representations"][0] - before).abs().max() > 1e-4


def test_dropout_is_on_the_output_and_only_in_training(model: Published) -> None:
    elmo = Elmo(*model.files, 1)
    elmo._elmo_lstm._elmo_lstm.stateful = False
    ids = batch_to_ids([["word"] * 50])
    clean = elmo.eval()(ids)["elmo_representations"][0]
    noisy = elmo.train()(ids)["elmo_representations"][0]
    dropped = noisy == 0
    assert 0.4 < dropped.float().mean() < 0.6
    close(noisy[~dropped], (2 * clean[~dropped]).detach().numpy(), 1e-5)


def test_cached_words_give_the_same_vectors(model: Published) -> None:
    words = ["@@PADDING@@", "@@UNKNOWN@@", "The", "cat", "sat", "."]
    cached = Elmo(*model.files, 1, dropout=0.0, vocab_to_cache=words)
    plain = Elmo(*model.files, 1, dropout=0.0)
    ids = batch_to_ids([["The", "cat", "sat", "."], ["cat"]])
    numbers = torch.tensor([[2, 3, 4, 5], [3, 0, 0, 0]])
    calls: list[int] = []
    cached._elmo_lstm._token_embedder.register_forward_hook(lambda *_: calls.append(1))
    for _ in range(2):  # state goes on here too
        expected, output = plain(ids), cached(ids, numbers)
        close(output["elmo_representations"][0], expected["elmo_representations"][0].detach())
        assert torch.equal(output["mask"], expected["mask"])
    assert not calls  # no characters were read
    # a word beyond the list: the characters of the whole batch are read instead, as in AllenNLP
    expected, output = plain(ids), cached(ids, torch.full_like(numbers, 6))
    close(output["elmo_representations"][0], expected["elmo_representations"][0].detach())
    assert calls
    shaped = cached(ids.view(2, 1, 4, 50), numbers.view(2, 1, 4))
    assert shaped["elmo_representations"][0].shape == (2, 1, 4, 12) and shaped["mask"].shape == (2, 1, 4)


def test_word_inputs_without_cached_words_are_ignored(model: Published, caplog: pytest.LogCaptureFixture) -> None:
    elmo = Elmo(*model.files, 1, dropout=0.0)
    (vectors,) = elmo(batch_to_ids([["a", "b"]]), torch.tensor([[1, 2]]))["elmo_representations"]
    close(vectors[0], model.embed(["a", "b"]).mean(axis=0))
    assert "vocab_to_cache" in caplog.text


def test_cached_words_can_be_fine_tuned(model: Published) -> None:
    elmo = Elmo(*model.files, 1, requires_grad=True, vocab_to_cache=["", "a", "b"])
    elmo(batch_to_ids([["a", "b"]]), torch.tensor([[1, 2]]))["elmo_representations"][0].sum().backward()
    table = elmo._elmo_lstm._word_embedding.weight
    assert table.shape == (3, 6) and table.grad[1:].abs().sum(dim=1).min() > 0 and not table.grad[0].any()


def test_token_embedder(model: Published) -> None:
    plain = ElmoTokenEmbedder(*model.files, dropout=0.0)
    assert plain.get_output_dim() == 12
    close(plain(batch_to_ids([["a", "b"]]))[0], model.embed(["a", "b"]).mean(axis=0))
    projected = ElmoTokenEmbedder(*model.files, dropout=0.0, projection_dim=5)
    assert projected.get_output_dim() == 5
    assert projected(batch_to_ids([["a", "b"]]).view(1, 1, 2, 50)).shape == (1, 1, 2, 5)


def test_another_module_can_take_the_place_of_the_bilm(model: Published) -> None:
    shared = _ElmoBiLm(*model.files)
    elmo = Elmo(None, None, 1, dropout=0.0, module=shared)
    assert elmo._elmo_lstm is shared
    close(elmo(batch_to_ids([["a"]]))["elmo_representations"][0][0], model.embed(["a"]).mean(axis=0))
    with pytest.raises(ConfigError, match="module"):
        Elmo(*model.files, 1, module=shared)


def test_models_are_found_by_pair_and_by_folder(model: Published) -> None:
    expected = model.embed(["a", "b"])
    for files in (model.files, (Path(model.files[0]), Path(model.files[1])), (str(Path(model.files[0]).parent), None)):
        close(ElmoEmbedder(*files).embed_sentence(["a", "b"]), expected)


def test_the_packaged_model_is_never_taken_for_the_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELMOKIT_MODELS", raising=False)
    for make in (ElmoEmbedder, ElmoTokenEmbedder, lambda: Elmo(OPTIONS, WEIGHTS, 1)):
        with pytest.raises(ConfigError, match=r"put elmo_\S*_options.json and elmo_\S*_weights.hdf5 into one folder"):
            make()
    with pytest.raises(ConfigError, match="expected options_file and weight_file"):
        Elmo(None, None, 1)


def test_ids_of_another_width_are_refused(tmp_path: Path) -> None:
    model = Published(tmp_path, max_characters=20)
    with pytest.raises(InputError, match=r"expected 20 character ids per token, .* found \(1, 1, 50\)"):
        _ElmoBiLm(*model.files)(batch_to_ids([["a"]]))
    word = "x" * 30  # the embedder makes ids as the options say
    assert len(character_row(word, 20)) == 20
    close(ElmoEmbedder(*model.files).embed_sentence([word, "y"]), model.embed([word, "y"]))


def test_models_without_byte_characters_are_refused(tmp_path: Path) -> None:
    model = Published(tmp_path, n_words=5)
    (tmp_path / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\na\nb\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        Elmo(*model.files, 1)


def test_copies_and_pickles_share_inside_and_not_outside(model: Published) -> None:
    elmo = Elmo(*model.files, 1, dropout=0.0, vocab_to_cache=["", "a"])
    ids, words = batch_to_ids([["a"]]), torch.tensor([[1]])
    elmo(ids, words)
    for twin in (copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))):
        before = twin(ids, words)["elmo_representations"][0]
        twin._elmo_lstm._elmo_lstm.forward_layers[0].state_linearity.bias.data.fill_(3.0)
        twin._elmo_lstm._word_embedding.weight.data.fill_(3.0)
        after = twin(ids, words)["elmo_representations"][0]
        assert (after - before).abs().max() > 1e-2
    twin = copy.deepcopy(elmo).double()
    close(twin(ids, words)["elmo_representations"][0], elmo(ids, words)["elmo_representations"][0].detach().numpy())


class Task(torch.nn.Module):
    """A task model with ELMo inside, as old checkpoints have it."""

    def __init__(self, elmo: Elmo) -> None:
        super().__init__()
        self.text = elmo
        self.head = torch.nn.Linear(12, 2)


def old_checkpoint(model: Published) -> dict[str, torch.Tensor]:
    """The state dict that AllenNLP would have saved, written from the published weights as its loader read them."""
    w = {name: torch.from_numpy(array) for name, array in model.weights.items()}
    old: dict[str, torch.Tensor] = {}
    encoder = "_elmo_lstm._token_embedder."
    old[encoder + "_char_embedding_weights"] = torch.cat((torch.zeros(1, 4), w["char_embed"]))
    for i in range(3):
        old[f"{encoder}char_conv_{i}.weight"] = w[f"CNN/W_cnn_{i}"].squeeze(0).permute(2, 1, 0)
        old[f"{encoder}char_conv_{i}.bias"] = w[f"CNN/b_cnn_{i}"]
    highway, projection = f"{encoder}_highways._layers.0.", f"{encoder}_projection."
    old[highway + "weight"] = torch.cat((w["CNN_high_0/W_transform"].t(), -w["CNN_high_0/W_carry"].t()))
    old[highway + "bias"] = torch.cat((w["CNN_high_0/b_transform"], -w["CNN_high_0/b_carry"]))
    old[projection + "weight"], old[projection + "bias"] = w["CNN_proj/W_proj"].t(), w["CNN_proj/b_proj"]
    for d, side in enumerate(("forward", "backward")):
        for layer in range(2):
            theirs = lstm_name(d, layer)
            name = f"_elmo_lstm._elmo_lstm.{side}_layer_{layer}."
            i, j, f, o = w[f"{theirs}/W_0"].t().chunk(4)
            both = torch.cat((i, f, j, o))
            old[name + "input_linearity.weight"], old[name + "state_linearity.weight"] = both[:, :6], both[:, 6:]
            i, j, f, o = w[f"{theirs}/B"].chunk(4)
            old[name + "state_linearity.bias"] = torch.cat((i, f + 1, j, o))
            old[name + "state_projection.weight"] = w[f"{theirs}/W_P_0"].t()
    old |= {f"scalar_mix_0.scalar_parameters.{k}": torch.tensor([float(k)]) for k in range(3)}
    return old | {"scalar_mix_0.gamma": torch.tensor([0.5])}


def test_old_checkpoints_load(model: Published, tmp_path: Path) -> None:
    checkpoint = {f"text.{name}": tensor for name, tensor in old_checkpoint(model).items()}
    checkpoint |= {"head.weight": torch.ones(2, 12), "head.bias": torch.ones(2)}
    names = sorted(checkpoint)
    expected = 0.5 * np.tensordot(np.exp([0, 1, 2]) / np.exp([0, 1, 2]).sum(), model.embed(["a", "b"]), 1)
    (tmp_path / "other").mkdir()
    other = Published(tmp_path / "other", scale=0.1)  # as if trained from another start
    for arguments in ({}, {"assign": True}):
        task = Task(Elmo(*other.files, 1, dropout=0.0))
        task.load_state_dict(checkpoint, **arguments)
        assert sorted(checkpoint) == names
        close(task.text(batch_to_ids([["a", "b"]]))["elmo_representations"][0][0], expected)
    again = Task(Elmo(*other.files, 1, dropout=0.0))
    again.load_state_dict(task.state_dict())  # and what we save loads as well
    close(again.text(batch_to_ids([["a", "b"]]))["elmo_representations"][0][0], expected)
    del checkpoint["text._elmo_lstm._elmo_lstm.forward_layer_1.state_linearity.bias"]
    with pytest.raises(RuntimeError, match=r"Missing key.*forward_layer_1\.state_linearity\.bias"):
        task.load_state_dict(checkpoint)


def test_old_checkpoints_with_cached_words_load(model: Published) -> None:
    elmo = Elmo(*model.files, 1, dropout=0.0, vocab_to_cache=["", "a", "b"])
    elmo.load_state_dict(old_checkpoint(model) | {"_elmo_lstm._word_embedding.weight": torch.ones(3, 6)})
    close(elmo._elmo_lstm._word_embedding.weight, np.ones((3, 6)))


def test_checkpoints_of_earlier_versions_load(model: Published, tmp_path: Path) -> None:
    """Up to elmokit 0.3 the drop-in saved the parameters of `elmokit.nn`, and the marks with the cached words."""
    (tmp_path / "other").mkdir()
    other = Published(tmp_path / "other", scale=0.1)
    elmo = Elmo(*other.files, 1, dropout=0.0, vocab_to_cache=["", "a", "b"])
    ours = load(Path(model.files[0]).parent).bilm.state_dict()
    earlier = {
        "_elmo_lstm."
        + (
            f"_token_embedder.encoder.{name[14:]}" if name.startswith("token_encoder.") else f"_elmo_lstm.{name}"
        ): tensor
        for name, tensor in ours.items()
    }
    mix = {name: tensor for name, tensor in elmo.state_dict().items() if name.startswith("scalar_mix")}
    elmo.load_state_dict(earlier | mix | {"_elmo_lstm._word_embedding.word_embedding": torch.ones(5, 6)})
    close(elmo(batch_to_ids([["a", "b"]]))["elmo_representations"][0][0], model.embed(["a", "b"]).mean(axis=0))
    close(elmo._elmo_lstm._word_embedding.weight, np.ones((3, 6)))


def test_embedder_carries_its_state(model: Published) -> None:
    embedder = ElmoEmbedder(*model.files)
    states = [OracleState() for _ in range(4)]
    for batch in BATCHES:
        for row, (vectors, sentence) in enumerate(zip(embedder.embed_batch(batch), batch, strict=True)):
            expected = model.embed(sentence, states[row])
            if sentence:
                assert vectors.dtype == np.float32 and vectors.shape == (3, len(sentence), 12)
                close(vectors, expected)
            else:
                assert vectors.shape == (3, 0, 1024)  # whatever the model, as in AllenNLP
    close(embedder.embed_sentence(["one"]), model.embed(["one"], states[0]))
    assert embedder.embed_sentence([]).shape == (3, 0, 1024)  # is not read
    close(embedder.embed_sentence(["one"]), model.embed(["one"], states[0]))
    layers, mask = embedder.batch_to_embeddings([["a", "b"], ["c"]])
    assert layers.shape == (2, 3, 2, 12) and mask.tolist() == [[True, True], [True, False]]
    assert not layers[1, :, 1].any()


def test_embedder_takes_sentences_in_batches(model: Published) -> None:
    sentences = [[f"word{n}"] * (n % 4 + 1) for n in range(7)]
    states = [OracleState() for _ in range(3)]
    found = list(ElmoEmbedder(*model.files).embed_sentences(iter(sentences), batch_size=3))
    for n, (vectors, sentence) in enumerate(zip(found, sentences, strict=True)):
        close(vectors, model.embed(sentence, states[n % 3]))


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_embed_file(model: Published, tmp_path: Path, output_format: Any) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out.hdf5"
    text.write_text("a b\nc\na b\n")
    ElmoEmbedder(*model.files).embed_file(text.open(), str(out), output_format, batch_size=2)
    states = [OracleState(), OracleState()]
    with h5py.File(out) as file:
        assert sorted(file) == ["0", "1", "2", "sentence_to_index"]
        assert file["sentence_to_index"].shape == (1,)
        assert json.loads(file["sentence_to_index"][0]) == {"a b": "2", "c": "1"}
        for n, line in enumerate(("a b", "c", "a b")):
            layers = model.embed(line.split(), states[n % 2])
            assert file[str(n)].dtype == np.float32
            close(file[str(n)][...], {"all": layers, "top": layers[2], "average": layers.mean(axis=0)}[output_format])


def interrupted(*_: Any) -> Iterator[np.ndarray]:
    yield np.zeros((3, 2, 12), dtype=np.float32)
    raise KeyboardInterrupt


def test_embed_file_keys_and_errors(model: Published, tmp_path: Path) -> None:
    embedder, text, out = ElmoEmbedder(*model.files), tmp_path / "text.txt", str(tmp_path / "out.hdf5")
    text.write_text("a b\nc\n")
    embedder.embed_file(text.open(), out, use_sentence_keys=True)
    with h5py.File(out) as file:
        assert sorted(file) == ["a b", "c"]
    embedder.embed_file(text.open(), out, forget_sentences=True)
    with h5py.File(out) as file:
        assert sorted(file) == ["0", "1"]
    with pytest.MonkeyPatch.context() as patch, text.open() as file, pytest.raises(KeyboardInterrupt):
        patch.setattr(embedder, "embed_sentences", interrupted)
        embedder.embed_file(file, out)
    assert not list(tmp_path.glob(".out.hdf5*"))
    with h5py.File(out) as file:
        assert sorted(file) == ["0", "1"]  # the older file, whole
    with text.open() as file, pytest.raises(ConfigError, match="output_format"):
        embedder.embed_file(file, out, "middle")  # type: ignore[arg-type]
    text.write_text("a\n\na\n")
    with pytest.raises(InputError, match=r"none in lines \[1\]"):
        embedder.embed_file(text.open(), out)
    text.write_text("a\na\n")
    with pytest.raises(InputError, match="twice"):
        embedder.embed_file(text.open(), out, use_sentence_keys=True)


def test_published_fixture(shared_data: Path) -> None:
    folder = shared_data / "elmo" / "bilm-tf-fixture"
    embedder = ElmoEmbedder(str(folder / "options.json"), str(folder / "lm_weights.hdf5"))
    sentences = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    with h5py.File(folder / "lm_embeddings_0.hdf5") as file:
        for i, batch in enumerate(zip(*sentences, strict=True)):
            vectors = embedder.embed_batch([sentence.split() for sentence in batch])[0]
            forward, backward = file[str(i)][...]
            close(vectors[-1], np.concatenate((forward, backward), axis=1), 1e-6)
