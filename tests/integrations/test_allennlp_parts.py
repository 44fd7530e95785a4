"""The smaller classes of the AllenNLP drop-in: masks, indexer, encoder base, LSTM, settings, addresses."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from published_model import Published
from torch import nn

from elmokit.errors import ConfigError
from elmokit.integrations import published
from elmokit.integrations.allennlp import (
    ConfigurationError,
    Elmo,
    ELMoCharacterMapper,
    ElmoEmbedder,
    ElmoLstm,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    ElmoTokenEmbedderMultiLang,
    Highway,
    LstmCellWithProjection,
    Params,
    ScalarMix,
    _EncoderBase,
    add_sentence_boundary_token_ids,
    batch_to_ids,
    sort_batch_by_length,
)
from elmokit.integrations.allennlp.data import Token, Vocabulary
from elmokit.integrations.allennlp.fields import Batch, Instance, TextField
from elmokit.integrations.allennlp.indexer import SingleIdTokenIndexer, _make_bos_eos
from elmokit.integrations.allennlp.masks import Mask, as_mask
from elmokit.integrations.allennlp.util import (
    check_dimensions_match,
    get_text_field_mask,
    lazy_groups_of,
    move_to_device,
)


@pytest.fixture
def model(tmp_path: Path) -> Published:
    return Published(tmp_path)


# Masks


def test_masks_subtract_as_integers_and_are_booleans() -> None:
    mask = as_mask(torch.tensor([[1, 1, 0]]))
    assert mask.dtype == torch.bool
    for inverse in (1 - mask, torch.sub(1, mask), 1 - mask[:, :], 1 - mask.unsqueeze(0)[0]):
        assert inverse.dtype == torch.long and inverse.tolist() == [[0, 0, 1]] and type(inverse) is torch.Tensor
    assert (-mask).tolist() == [[-1, -1, 0]] and (mask - 1).tolist() == [[0, 0, -1]]
    assert (~mask).tolist() == [[False, False, True]] and (~mask).dtype == torch.bool
    assert isinstance(mask[0], Mask) and type(mask.float()) is torch.Tensor
    vectors = torch.ones(1, 3, 2, requires_grad=True)
    masked = vectors * mask.unsqueeze(-1)
    assert type(masked) is torch.Tensor and masked.sum() == 4
    assert vectors[mask].shape == (2, 2)  # a boolean selects; an integer would look up
    assert type(pickle.loads(pickle.dumps(mask))) is torch.Tensor
    assert mask.sum().item() == 2 and mask.numpy().sum() == 2


def test_masks_in_other_operations() -> None:
    mask, other = as_mask(torch.tensor([1, 1, 0, 0])), torch.tensor([True, False, True, False])
    for difference in (torch.sub(input=other, other=mask), other - mask, torch.subtract(other, mask)):
        assert difference.tolist() == [0, -1, 1, 0] and difference.dtype == torch.long
    changed = mask
    changed -= 1
    assert changed.tolist() == [0, 0, -1, -1] and type(changed) is torch.Tensor
    assert mask.tolist() == [True, True, False, False]  # a new tensor: torch cannot change a type in place
    with pytest.raises(RuntimeError, match="Subtraction"):
        mask.sub_(1)
    scores = torch.zeros(4)
    scores -= mask
    assert scores.tolist() == [-1, -1, 0, 0]
    assert mask.mean() == 0.5 and torch.mean(mask.view(2, 2), dim=0).tolist() == [0.5, 0.5]
    assert (mask + 1).tolist() == [2, 2, 1, 1] and sum([mask, mask]).tolist() == [2, 2, 0, 0]  # type: ignore[union-attr]
    either = mask + other  # as in AllenNLP 2: a mask that selects
    assert isinstance(either, Mask) and torch.arange(4)[either].tolist() == [0, 1, 2]


def test_outputs_have_such_masks(model: Published) -> None:
    output = Elmo(*model.files, 1)(batch_to_ids([["a", "b"], ["c"]]))
    assert (1 - output["mask"]).tolist() == [[0, 0], [0, 1]] and (~output["mask"]).sum() == 1
    _, mask = ElmoEmbedder(*model.files).batch_to_embeddings([["a", "b"], ["c"]])
    assert (1 - mask).sum() == 1


# Types of ids


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int64])
def test_ids_of_any_integer_type(model: Published, dtype: torch.dtype) -> None:
    elmo = Elmo(*model.files, 1, dropout=0.0, vocab_to_cache=["", "a", "b"])
    ids, words = batch_to_ids([["a", "b"], ["a"]]).to(dtype), torch.tensor([[1, 2], [1, 0]]).int()
    for arguments in ((ids,), (ids, words)):
        elmo._elmo_lstm._elmo_lstm.reset_states()
        output = elmo(*arguments)["elmo_representations"][0]
        np.testing.assert_allclose(output[0].detach(), model.embed(["a", "b"]).mean(axis=0), atol=1e-5)
    marked, mask = add_sentence_boundary_token_ids(ids, (ids > 0).any(dim=-1), torch.tensor(5), torch.tensor(6))
    assert marked.dtype == dtype and mask.tolist() == [[True] * 4, [True] * 3 + [False]]


# Lists of submodules


def test_assigned_items_of_lists_take_effect(model: Published) -> None:
    elmo = Elmo(*model.files, 2, dropout=0.0)
    ids, expected = batch_to_ids([["a", "b"]]), model.embed(["a", "b"])

    def run() -> list[torch.Tensor]:
        elmo._elmo_lstm._elmo_lstm.reset_states()
        representations: list[torch.Tensor] = elmo(ids)["elmo_representations"]
        return [vectors[0].detach() for vectors in representations]

    names = [name for name, _ in elmo.named_parameters()]
    top = ScalarMix(3, initial_scalar_parameters=[-9e9, -9e9, 0])
    elmo._scalar_mixes[0] = top
    np.testing.assert_allclose(run()[0], expected[2], atol=1e-5)
    assert elmo.scalar_mix_0 is top and [name for name, _ in elmo.named_parameters()] == names
    elmo._scalar_mixes = nn.ModuleList([ScalarMix(3), top])
    np.testing.assert_allclose(run()[1], expected[2], atol=1e-5)
    assert [name for name, _ in elmo.named_parameters()] == names
    elmo.scalar_mix_2 = ScalarMix(3)  # an attribute of the caller, not in the list
    assert len(run()) == 2
    del elmo.scalar_mix_2
    elmo._scalar_mixes = [lambda layers, mask: layers[0]]  # any callable, and another number
    (lowest,) = run()
    np.testing.assert_allclose(lowest, expected[0], atol=1e-5)
    elmo._scalar_mixes.append(ScalarMix(3))
    assert len(run()) == 2 and "scalar_mix_1.gamma" in elmo.state_dict()
    del elmo._scalar_mixes[0]
    assert len(elmo._scalar_mixes) == 1 and "scalar_mix_0.gamma" in elmo.state_dict()
    assert type(copy.deepcopy(elmo._scalar_mixes)) is list


def test_assigned_layers_and_convolutions_take_effect(model: Published) -> None:
    torch.manual_seed(0)
    lstm = ElmoLstm(3, 5, 7, num_layers=2)
    x, mask = torch.randn(1, 4, 3), torch.ones(1, 4)
    before = lstm(x, mask)
    lstm.reset_states()
    first = LstmCellWithProjection(3, 5, 7)
    lstm.forward_layers[0] = first
    assert lstm.forward_layer_0 is first
    changed = lstm(x, mask)
    torch.testing.assert_close(changed[0, 0, :, :5], plain_lstm(first, x[0], 4))
    torch.testing.assert_close(changed[:, :, :, 5:], before[:, :, :, 5:])
    lstm.reset_states()
    lstm.forward_layers, lstm.backward_layers = lstm.forward_layers[:1], lstm.backward_layers[:1]
    torch.testing.assert_close(lstm(x, mask), changed[:1])
    assert not hasattr(lstm, "forward_layer_1")

    encoder = Elmo(*model.files, 1)._elmo_lstm._token_embedder
    ids = batch_to_ids([["a"]])
    before = encoder(ids)["token_embedding"]
    twin = copy.deepcopy(encoder._convolutions[0])
    twin.bias.data += 1
    encoder._convolutions[0] = twin
    changed = encoder(ids)["token_embedding"]
    assert encoder.char_conv_0 is twin and (changed - before).abs().max() > 1e-3
    twin.bias.data -= 1
    encoder._convolutions = [*encoder._convolutions]
    torch.testing.assert_close(encoder(ids)["token_embedding"], before)


# Indexer


def test_indexer_in_the_three_dialects() -> None:
    indexer = ELMoTokenCharactersIndexer(tokens_to_add={"<first>": 1})
    row = [259, 84, 102, 100, 260] + [261] * 45  # "Sec"
    added = [259, 2, 260] + [261] * 47
    tokens = [Token("Sec"), Token("<first>")]
    assert indexer.tokens_to_indices(tokens, Vocabulary()) == {"elmo_tokens": [row, added]}
    assert indexer.tokens_to_indices(tokens, Vocabulary(), "elmo") == {"elmo": [row, added]}
    assert indexer.token_to_indices(Token("Sec"), Vocabulary()) == row
    padded = [row, added, [0] * 50]
    assert (
        indexer.as_padded_tensor_dict({"elmo_tokens": [row, added]}, {"elmo_tokens": 3})["elmo_tokens"].tolist()
        == padded
    )
    assert indexer.as_padded_tensor({"e": [row, added]}, {"e": 3}, {})["e"].tolist() == padded
    assert indexer.pad_token_sequence([row, added], 3, {}) == padded
    assert indexer.as_padded_tensor_dict(indexer.get_empty_token_list(), {"elmo_tokens": 2})["elmo_tokens"].shape == (
        2,
        50,
    )
    assert indexer.get_padding_lengths({"elmo_tokens": [row]}) == {"elmo_tokens": 1}
    assert indexer == ELMoTokenCharactersIndexer(tokens_to_add={"<first>": 1}) != ELMoTokenCharactersIndexer()
    with pytest.raises(ConfigurationError, match="text"):
        indexer.tokens_to_indices([Token(None)])


def test_mapper_agrees_with_batch_to_ids() -> None:
    mapper = ELMoCharacterMapper()
    for word in ("a", "naïve", "<S>", "</S>", "x" * 70, "日本語"):
        assert mapper.convert_word_to_char_ids(word) == batch_to_ids([[word]])[0, 0].tolist()
    assert ELMoCharacterMapper.beginning_of_sentence_characters[:4] == [258, 256, 259, 260]
    assert mapper == ELMoCharacterMapper({}) != ELMoCharacterMapper({"a": 3})


# Encoder base


def test_states_are_sorted_and_grown_and_kept() -> None:
    encoder = _EncoderBase(stateful=True)
    order = torch.tensor([0, 1, 3, 2, 4])
    assert encoder._get_initial_states(5, 3, order) is None
    before = torch.arange(1.0, 13).view(1, 3, 4)
    encoder._states = (before, 2 * before)
    first, second = encoder._get_initial_states(5, 3, order)
    grown = torch.cat((before, torch.zeros(1, 2, 4)), dim=1)
    assert torch.equal(encoder._states[0], grown)
    assert torch.equal(first, grown[:, [0, 1, 3]]) and torch.equal(second, 2 * grown[:, [0, 1, 3]])
    encoder._states = (before,)
    assert encoder._get_initial_states(2, 2, torch.tensor([1, 0])).tolist() == before[:, [1, 0]].tolist()


def test_states_of_empty_rows_stay() -> None:
    encoder = _EncoderBase(stateful=True)
    old = torch.ones(2, 4, 3)
    encoder._update_states((old,), torch.arange(4))
    new = torch.full((2, 3, 3), 5.0)
    new[:, 2] = 0  # of the sorted rows the last was empty
    encoder._update_states((new,), torch.tensor([2, 0, 1]))  # which is row 0 of the batch
    assert encoder._states is not None
    assert encoder._states[0][0, :, 0].tolist() == [1, 5, 5, 1]
    encoder.reset_states(torch.tensor([False, True, False, False]))
    assert encoder._states[0][1, :, 2].tolist() == [1, 0, 5, 1]
    with pytest.raises(ValueError, match="each of 4 rows, found 1"):
        encoder.reset_states(torch.tensor([True]))
    encoder.reset_states()
    assert encoder._states is None
    with pytest.raises(ConfigurationError, match="nothing was read"):
        encoder.reset_states(torch.tensor([True]))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_any_recurrent_module_can_be_run(kind: type[nn.LSTM] | type[nn.GRU]) -> None:
    torch.manual_seed(0)
    module = kind(3, 4, batch_first=True)
    x, mask = torch.randn(4, 5, 3), torch.zeros(4, 5)
    for row, n in enumerate((2, 0, 5, 1)):
        mask[row, :n] = 1
    start = torch.randn(1, 4, 4)
    states = (start, start) if kind is nn.LSTM else start
    output, _, restoration = _EncoderBase().sort_and_run_forward(module, x, mask, states)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
    assert lengths.tolist() == [5, 2, 1]
    found = torch.cat((padded, torch.zeros(1, 5, 4))).index_select(0, restoration)
    for row, n in ((0, 2), (2, 5), (3, 1)):
        own = start[:, row : row + 1]
        expected, _ = module(x[row : row + 1, :n], (own, own) if kind is nn.LSTM else own)
        torch.testing.assert_close(found[row, :n], expected[0])


def test_sort_batch_by_length() -> None:
    x = torch.tensor([[1.0], [2.0], [3.0]])
    ordered, lengths, restore, order = sort_batch_by_length(x, torch.tensor([2, 5, 3]))
    assert ordered.flatten().tolist() == [2, 3, 1] and lengths.tolist() == [5, 3, 2] and order.tolist() == [1, 2, 0]
    assert torch.equal(ordered[restore], x)
    with pytest.raises(ConfigurationError):
        sort_batch_by_length(x, [1, 2, 3])  # type: ignore[arg-type]


def test_functions_around_elmo() -> None:
    ids = batch_to_ids([["a", "b"], ["c"]])
    expected = [[True, True], [True, False]]
    for tensors in (
        {"elmo": ids},
        {"elmo": {"elmo_tokens": ids}},
        {"e": ids, "tokens": torch.tensor([[2, 3], [4, 0]])},
    ):
        assert get_text_field_mask(tensors).tolist() == expected
    assert get_text_field_mask({"elmo": ids.unsqueeze(0)}, num_wrapping_dims=1).tolist() == [expected]
    assert get_text_field_mask({"x": {"ids": ids, "mask": torch.ones(2, 5)}}).shape == (2, 5)
    with pytest.raises(ValueError, match=r"expected word ids \(B, T\)"):
        get_text_field_mask({"x": torch.zeros(3)})
    moved = move_to_device({"a": [ids, ("b", 3)]}, -1)
    assert moved["a"][0] is ids and moved["a"][1] == ("b", 3)
    assert move_to_device([torch.zeros(2)], torch.device("meta"))[0].is_meta
    assert list(lazy_groups_of(range(5), 2)) == [[0, 1], [2, 3], [4]]
    check_dimensions_match(3, 3, "a", "b")
    with pytest.raises(ConfigurationError, match="embedding: expected encoder = 4, found 3"):
        check_dimensions_match(3, 4, "embedding", "encoder")
    assert _make_bos_eos(256, 260, 258, 259, 50) == ELMoCharacterMapper.beginning_of_sentence_characters


# LSTM


def clamp(x: torch.Tensor, limit: float | None) -> torch.Tensor:
    return x if limit is None else x.clamp(-limit, limit)


def plain_lstm(cell: LstmCellWithProjection, x: torch.Tensor, n: int) -> torch.Tensor:
    """One sentence (T, d), step by step, with autograd."""
    m, c = x.new_zeros(cell.hidden_size), x.new_zeros(cell.cell_size)
    outputs = [x.new_zeros(cell.hidden_size)] * len(x)
    for t in range(n) if cell.go_forward else reversed(range(n)):
        i, f, j, o = (cell.input_linearity(x[t]) + cell.state_linearity(m)).chunk(4)
        c = clamp(i.sigmoid() * j.tanh() + f.sigmoid() * c, cell.memory_cell_clip_value)
        m = clamp(cell.state_projection(o.sigmoid() * c.tanh()), cell.state_projection_clip_value)
        outputs[t] = m
    return torch.stack(outputs)


@pytest.mark.parametrize("go_forward", [True, False])
def test_cell_against_a_plain_loop(go_forward: bool) -> None:
    torch.manual_seed(1)
    cell = LstmCellWithProjection(3, 5, 7, go_forward, memory_cell_clip_value=0.3, state_projection_clip_value=0.1)
    assert cell.state_linearity.bias.detach()[7:14].tolist() == [1] * 7
    lengths = [5, 4, 2, 1]
    x = torch.randn(4, 5, 3, requires_grad=True)
    output, (hidden, memory) = cell(x, lengths)
    assert hidden.shape == (1, 4, 5) and memory.shape == (1, 4, 7) and memory.abs().max() <= 0.3
    expected = torch.stack([plain_lstm(cell, row, n) for row, n in zip(x, lengths, strict=True)])
    torch.testing.assert_close(output, expected)
    weights = [x, *cell.parameters()]
    for found, wanted in zip(
        torch.autograd.grad(output.square().sum(), weights),
        torch.autograd.grad(expected.square().sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(cell(x, lengths)[0], expected.detach())
        cell.state_linearity.bias.data.add_(1.0)  # a change that no version counter sees
        assert (cell(x, lengths)[0] - expected).abs().max() > 1e-3


def test_stacked_lstm() -> None:
    torch.manual_seed(2)
    lstm = ElmoLstm(3, 5, 7, num_layers=2, memory_cell_clip_value=2, state_projection_clip_value=1)
    assert (lstm.input_size, lstm.hidden_size, lstm.cell_size, lstm.num_layers, lstm.stateful) == (3, 5, 7, 2, True)
    assert lstm.forward_layers == [lstm.forward_layer_0, lstm.forward_layer_1]
    x, mask = torch.randn(4, 5, 3), torch.zeros(4, 5, dtype=torch.bool)
    for row, n in enumerate((5, 4, 0, 1)):
        mask[row, :n] = True
    output = lstm(x, mask)
    assert output.shape == (2, 4, 5, 10) and not output[:, ~mask].any()
    assert [tuple(state.shape) for state in lstm._states] == [(2, 4, 10), (2, 4, 14)]
    assert not lstm._states[0][:, 2].any() and lstm._states[0][:, 0].all()
    first = plain_lstm(lstm.forward_layer_0, x[1], 4)
    second = plain_lstm(lstm.forward_layer_1, first, 4) + first * mask[1].unsqueeze(-1)
    torch.testing.assert_close(output[1, 1, :, :5], second)
    with pytest.raises(ConfigurationError, match="recurrent_dropout"):
        ElmoLstm(3, 5, 7, num_layers=1, recurrent_dropout_probability=0.1)
    with pytest.raises(ConfigurationError, match="at most cell_size"):
        ElmoLstm(3, 8, 7, num_layers=1)


def test_stacked_lstm_loads_published_weights(model: Published, tmp_path: Path) -> None:
    options = model.options["lstm"]
    lstm = ElmoLstm(6, 6, 12, 2, True, 0.0, options["cell_clip"], options["proj_clip"])
    lstm.load_weights(model.files[1])
    expected = Elmo(*model.files, 1)._elmo_lstm._elmo_lstm.state_dict()
    assert lstm.state_dict().keys() == expected.keys()
    for name, tensor in lstm.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    assert all(parameter.requires_grad for parameter in lstm.parameters())
    with pytest.raises(ConfigurationError, match=r"W_0 of shape \(10, 48\), found \(12, 48\)"):
        ElmoLstm(5, 5, 12, 2).load_weights(model.files[1])
    with pytest.raises(ConfigurationError, match=r"found .*none\.hdf5"):
        lstm.load_weights(tmp_path / "none.hdf5")


def test_highway_starts_almost_open() -> None:
    layer = Highway(4, 1)
    layer._layers[0].weight.data.zero_()
    layer._layers[0].bias.data[:4] = 0
    x = torch.randn(2, 4)
    torch.testing.assert_close(layer(x), x / (1 + np.exp(-1)))


# Settings


def test_from_params(model: Published) -> None:
    files = {"options_file": Path(model.files[0]), "weight_file": model.files[1]}
    elmo = Elmo.from_params(
        Params({**files, "num_output_representations": 2, "dropout": 0.25, "do_layer_norm": "true"})
    )
    assert elmo._dropout.p == 0.25 and elmo.scalar_mix_1.do_layer_norm is True
    embedder = ElmoTokenEmbedder.from_params(
        vocab=None, params=Params({"type": "elmo_token_embedder", **files, "projection_dim": 5})
    )
    assert embedder.get_output_dim() == 5
    vocabulary = Vocabulary({"tokens": {"a": 3, "b": 5}})
    cached = ElmoTokenEmbedder.from_params(vocabulary, Params({**files, "namespace_to_cache": "tokens"}))
    assert cached._elmo._elmo_lstm._word_embedding.weight.shape == (4, 6)
    indexer = ELMoTokenCharactersIndexer.from_params({"type": "elmo_characters", "tokens_to_add": {"<x>": 3}})
    assert indexer._mapper.tokens_to_add == {"<x>": 3}
    with pytest.raises(ConfigurationError, match="'dropuot'"):
        Elmo.from_params({**files, "num_output_representations": 1, "dropuot": 0.1})
    with pytest.raises(ConfigurationError, match="num_output_representations"):
        Elmo.from_params(dict(files))
    with pytest.raises(ConfigurationError, match="expected Params"):
        Elmo.from_params(None)


def test_params_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model": {"type": "crf", "dropout": 0.5}, "kind": "b"}))
    params = Params.from_file(path, '{"model.dropout": 0.1, "new.setting": 3}')
    twin = params.duplicate()
    assert params.pop("model").as_dict() == {"type": "crf", "dropout": 0.1} and params.pop("new").pop("setting") == 3
    assert params.pop_choice("kind", ["a", "b"]) == "b" and not len(params)
    assert params.pop_choice("kind", ["a", "b"], default_to_first_choice=True) == "a"
    assert twin["model"]["dropout"] == 0.1
    with pytest.raises(ConfigurationError, match="kind: expected a, c, found 'b'"):
        twin.pop_choice("kind", ["a", "c"])
    with pytest.raises(ConfigurationError, match="ext_vars"):
        Params.from_file(path, ext_vars={"x": "1"})
    path.write_text("// Jsonnet\n{}")
    with pytest.raises(ConfigurationError, match="expected JSON"):
        Params.from_file(path)


def test_params_are_taken_out() -> None:
    params = Params({"a": "3", "b": {"c": 1.5}, "d": "false"})
    assert (params.pop_int("a"), params.pop("b").pop_float("c"), params.pop_bool("d")) == (3, 1.5, False)
    params.assert_empty("x")
    assert params.pop_int("a", None) is None
    with pytest.raises(ConfigurationError, match="'a'"):
        params.pop("a")
    with pytest.raises(ConfigurationError, match="unknown settings: z"):
        Params({"z": 1}).assert_empty("x")


def test_old_error_name_catches_ours(model: Published, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        ScalarMix(3, initial_scalar_parameters=[0.0])
    with pytest.raises(ConfigurationError):
        Elmo(str(tmp_path / "nowhere.json"), model.files[1], 1)
    with pytest.raises(ConfigurationError):
        raise ConfigurationError("old code raises it too")


def test_a_zero_row_before_a_word_shifts_the_end_as_in_allennlp(model: Published) -> None:
    """The end mark stands after as many places as there are words, and so takes the place of the last word."""
    elmo = Elmo(*model.files, 1, dropout=0.0)
    ids = batch_to_ids([["x", "a", "b"]])
    ids[0, 0] = 0
    assert elmo._elmo_lstm._token_embedder(ids)["mask"].tolist() == [[True, False, True, True, False]]
    output = elmo(ids)
    assert output["mask"].tolist() == [[True, False, False]]
    assert output["elmo_representations"][0].isfinite().all() and not output["elmo_representations"][0][0, 1:].any()


# Embedders of several languages


def test_one_model_and_one_matrix_per_language(model: Published, tmp_path: Path) -> None:
    (tmp_path / "fr").mkdir()
    french = Published(tmp_path / "fr", scale=0.2)
    matrix = np.random.default_rng(0).normal(size=(12, 12))
    torch.save(matrix, tmp_path / "fr" / "align.pth")  # an array, as the published ones
    settings = {
        "options_files": {"en": model.files[0], "fr": Path(french.files[0])},
        "weight_files": {"en": model.files[1], "fr": Path(french.files[1])},
        "aligning_files": {"en": "", "fr": tmp_path / "fr" / "align.pth"},
        "scalar_mix_parameters": [-9e10, 1, -9e10],
        "dropout": 0.0,
    }
    embedder = ElmoTokenEmbedderMultiLang.from_params(vocab=None, params=Params(settings))
    ids = batch_to_ids([["le", "chat"]])
    np.testing.assert_allclose(embedder(ids, "en")[0], model.embed(["le", "chat"])[1], atol=1e-5)
    expected = french.embed(["le", "chat"])[1] @ matrix.T
    np.testing.assert_allclose(embedder(ids, lang="fr")[0].detach(), expected, atol=1e-4)
    assert {"elmo_fr.scalar_mix_0.gamma", "aligning_en.weight"} <= embedder.state_dict().keys()
    assert not embedder.aligning_fr.weight.requires_grad
    projected = ElmoTokenEmbedderMultiLang.from_params({**settings, "projection_dim": 5})
    assert projected(ids, "fr").shape == (1, 2, 5) and projected.get_output_dim() == 5
    with pytest.raises(ConfigurationError, match="lang: expected en, fr, found 'de'"):
        embedder(ids, "de")
    with pytest.raises(ConfigurationError, match="found options of en, fr and weights of en"):
        ElmoTokenEmbedderMultiLang(settings["options_files"], {"en": model.files[1]})


class Attack:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("a pickle ran code",)


@pytest.mark.parametrize("content", [Attack(), torch.zeros(2, 2), {"a": 1}, np.array([Attack()], dtype=object)])
def test_aligning_files_hold_a_matrix_and_nothing_else(
    model: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object
) -> None:
    torch.save(content, tmp_path / "align.pth")
    with pytest.raises(ConfigurationError, match=r"align.pth: expected a matrix"):
        ElmoTokenEmbedderMultiLang(
            {"en": model.files[0]}, {"en": model.files[1]}, aligning_files={"en": tmp_path / "align.pth"}
        )
    assert "ran code" not in capsys.readouterr().out


# Vocabulary and tokens


def test_vocabulary_gives_ids_by_namespace() -> None:
    vocabulary = Vocabulary({"tokens": {"a": 3, "b": 5}})
    assert vocabulary.get_index_to_token_vocabulary() == {0: "@@PADDING@@", 1: "@@UNKNOWN@@", 2: "b", 3: "a"}
    assert vocabulary.add_tokens_to_namespace(["a", "c", "c"]) == [3, 4, 4]
    assert (vocabulary.get_token_index("c"), vocabulary.get_token_index("z")) == (4, 1)
    assert vocabulary.get_token_from_index(4) == "c" and vocabulary.get_vocab_size() == 5
    assert vocabulary.add_token_to_namespace("B-PER", "labels") == 0
    assert vocabulary.get_vocab_size("other_tags") == 0 and vocabulary.get_token_from_index(0, "other") == "@@PADDING@@"


def test_vocabulary_of_instances() -> None:
    indexers = {"tokens": SingleIdTokenIndexer(lowercase_tokens=True), "tags": SingleIdTokenIndexer("my_tags")}
    texts = ["b A a", "a c c"]
    instances = [Instance({"text": TextField([Token(word) for word in text.split()], indexers)}) for text in texts]
    vocabulary = Vocabulary.from_instances(instances, min_count={"tokens": 2})
    assert vocabulary.get_token_to_index_vocabulary() == {"@@PADDING@@": 0, "@@UNKNOWN@@": 1, "a": 2, "c": 3}
    assert vocabulary.get_token_index("a", "my_tags") == 0 and vocabulary.get_vocab_size("my_tags") == 4
    vocabulary = Vocabulary.from_instances(instances, non_padded_namespaces=["tokens"])
    assert vocabulary.get_token_index("a") == 0 and vocabulary.get_token_index("a", "my_tags") == 2
    batch = Batch(instances)
    batch.index_instances(vocabulary)
    assert batch.as_tensor_dict({"text": {"tokens___tokens": 4}})["text"]["tokens"]["tokens"].shape == (2, 4)


def test_tokens_with_ids_of_their_own() -> None:
    token = Token("a", text_id=7, type_id=1)
    assert SingleIdTokenIndexer().tokens_to_indices([token, token], Vocabulary()) == {"tokens": [7, 7]}
    with pytest.raises(ConfigurationError, match="expected ids, found none"):
        TextField([token], {"x": SingleIdTokenIndexer()}).get_padding_lengths()


def test_vocabulary_of_many_words_takes_linear_time() -> None:
    words = [str(number) for number in range(50_000)]
    vocabulary = Vocabulary()
    vocabulary.add_tokens_to_namespace(words)
    assert [vocabulary.get_token_index(word) for word in words] == list(range(2, 50_002))


def test_tokens_have_the_fields_of_a_tagger() -> None:
    token = Token("cats", 4, lemma_="cat", pos_="NOUN")
    assert (str(token), token.idx, token.lemma_, token.tag_) == ("cats", 4, "cat", None)


def test_a_pickled_embedder_keeps_its_state(model: Published) -> None:
    """flair saves its `ELMoEmbeddings` so, and moves `_states` to its device after loading."""
    embedder = ElmoEmbedder(*model.files)
    embedder.embed_sentence(["a", "b"])
    twin = pickle.loads(pickle.dumps(embedder))
    twin.elmo_bilm.to(device="cpu")
    twin.elmo_bilm._elmo_lstm._states = tuple([state.to("cpu") for state in twin.elmo_bilm._elmo_lstm._states])
    np.testing.assert_array_equal(twin.embed_batch([["c"]])[0], embedder.embed_batch([["c"]])[0])


# Addresses of published files


def copies(model: Published, folder: Path) -> None:
    folder.mkdir(parents=True)
    name = "elmo_2x4096_512_2048cnn_2xhighway"
    (folder / f"{name}_options.json").write_bytes(Path(model.files[0]).read_bytes())
    (folder / f"{name}_weights.hdf5").write_bytes(Path(model.files[1]).read_bytes())


@pytest.mark.parametrize("below", ["", "2x4096_512_2048cnn_2xhighway", "models/elmo/2x4096_512_2048cnn_2xhighway"])
def test_addresses_are_found_in_the_models_folder(
    model: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    copies(model, tmp_path / "published" / below)
    monkeypatch.setenv("ELMOKIT_MODELS", str(tmp_path / "published"))
    vectors = ElmoEmbedder().embed_sentence(["a", "b"])
    np.testing.assert_allclose(vectors, model.embed(["a", "b"]), atol=1e-5)
    embedder = ElmoTokenEmbedder()
    assert embedder._elmo._elmo_lstm._token_embedder._options == json.loads(Path(model.files[0]).read_text())
    assert embedder._elmo._elmo_lstm._token_embedder._weight_file.endswith("_weights.hdf5")
    old = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway/"
    assert published.cached_path(old + "elmo_2x4096_512_2048cnn_2xhighway_options.json?versionId=1")
    assert published.published_files("original")[1].endswith("weights.hdf5")
    with pytest.raises(ConfigError, match=r"put elmo_pt_options.json and elmo_pt_weights.hdf5 into one folder"):
        published.published_files("pt")
    with pytest.raises(ConfigError, match="expected original, small"):
        published.published_files("tiny")


def test_the_folder_can_be_set_in_python(model: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELMOKIT_MODELS", raising=False)
    copies(model, tmp_path / "published")
    with pytest.raises(ConfigError, match="no folder is set"):
        ElmoEmbedder()
    published.set_models_folder(tmp_path / "published")
    try:
        assert ElmoEmbedder().embed_sentence(["a"]).shape == (3, 1, 12)
    finally:
        published.set_models_folder(None)
