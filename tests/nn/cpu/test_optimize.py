"""The whole network in its fast forms against the plain one: values, gradients, state dicts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.errors import ConfigError
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu import operators
from elmokit.nn.cpu.fast_bilm import FastBiLM
from elmokit.nn.cpu.fast_lstm import FastLstmLayer
from elmokit.nn.cpu.optimize import FAST_FORMS, optimize_
from elmokit.nn.packing import Packing
from elmokit.nn.softmax import AdaptiveHead, SoftmaxHead
from elmokit.nn.state import BiLMState

N_WORDS = 7
clips = st.sampled_from([None, 0.2, 3.0])
dtypes = st.sampled_from([torch.float32, torch.double])


@st.composite
def networks(draw: st.DrawFn, dtype: torch.dtype) -> BiLM:
    dim = draw(st.integers(1, 20))
    lstm = LstmConfig(
        dim=dim,
        projection_dim=draw(st.sampled_from([dim, min(dim, 5)])),
        n_layers=draw(st.integers(1, 3)),
        cell_clip=draw(clips),
        proj_clip=draw(clips),
        skip_connections=draw(st.booleans()),
    )
    filters = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=3))
    chars = CharCnnConfig(
        embedding_dim=draw(st.integers(1, 4)),
        filters=tuple(filters),
        n_highway=draw(st.integers(0, 2)),
        activation=draw(st.sampled_from(["relu", "tanh"])),
        max_characters=8,
    )
    bilm = BiLM(config=ModelConfig(lstm=lstm, char_cnn=chars)).to(dtype)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    for parameter in bilm.parameters():
        nn.init.normal_(parameter, std=parameter.shape[0] ** -0.5 if parameter.dim() > 1 else 0.3, generator=generator)
    return bilm


def batch(draw: Callable[[st.SearchStrategy[object]], object], bilm: BiLM) -> tuple[Tensor, Tensor, Packing, BiLMState]:
    """Ids of some words, which of them each token is, the layout, and a random initial state."""
    lengths = sorted(draw(st.lists(st.integers(1, 6), min_size=1, max_size=9)), reverse=True)  # type: ignore[type-var,call-overload]
    packing, generator = Packing.from_lengths(lengths), torch.Generator().manual_seed(sum(lengths))
    ids = torch.randint(1, 262, (N_WORDS, 8), generator=generator)
    for row in range(N_WORDS):
        ids[row, row % 7 + 1 :] = 261  # padding
    index = torch.randint(0, N_WORDS, (packing.n_tokens,), generator=generator)
    zeros = bilm.zero_state(len(lengths)).tensors()
    state = BiLMState.from_tensors([torch.randn(t.shape, generator=generator).to(t) / 2 for t in zeros])
    return ids, index, packing, state


@given(data=st.data(), dtype=dtypes, from_zero=st.booleans())
@settings(max_examples=40, deadline=None)
def test_values_and_gradients_equal_the_plain_network(data: st.DataObject, dtype: torch.dtype, from_zero: bool) -> None:
    plain = data.draw(networks(dtype))
    fast = optimize_(deepcopy(plain))
    assert isinstance(fast, FastBiLM)
    ids, index, packing, state = batch(data.draw, plain)

    def learn(bilm: BiLM) -> list[Tensor]:
        output = bilm(bilm.token_encoder(ids, None), index, packing, None if from_zero else state)
        results = [output.layers(), *output.state.tensors()]
        total = sum((result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum() for result in results)
        return [*results, *torch.autograd.grad(total, list(bilm.parameters()))]

    tolerance = 2e-4 if dtype == torch.float32 else 1e-9
    for found, expected in zip(learn(fast), learn(plain), strict=True):
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


@given(data=st.data(), dtype=dtypes)
@settings(max_examples=40, deadline=None)
def test_packed_for_inference_it_computes_the_same(data: st.DataObject, dtype: torch.dtype) -> None:
    plain = data.draw(networks(dtype)).requires_grad_(False)
    fast = optimize_(deepcopy(plain), "float32")
    ids, index, packing, state = batch(data.draw, plain)
    expected = plain(plain.token_encoder(ids, None), index, packing, state)
    with torch.inference_mode():
        found = fast(fast.token_encoder(ids, None), index, packing, state)
    torch.testing.assert_close(found.layers(), expected.layers(), atol=1e-4, rtol=1e-4)
    for a, b in zip(found.state.tensors(), expected.state.tensors(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
    before, after = plain.state_dict(), fast.state_dict()
    assert sorted(before) == sorted(after)
    assert all(torch.equal(before[name], after[name]) for name in before)


def tiny() -> BiLM:
    config = ModelConfig(
        lstm=LstmConfig(dim=8, projection_dim=4), char_cnn=CharCnnConfig(filters=((1, 3),), n_highway=1)
    )
    bilm, generator = BiLM(config=config), torch.Generator().manual_seed(0)
    for parameter in bilm.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return bilm


def test_parameters_stay_the_same_objects_under_the_same_names() -> None:
    for network in (tiny(), SoftmaxHead(n_words=9, dim=4), AdaptiveHead(n_words=9, dim=4)):
        before = list(network.named_parameters())
        assert optimize_(network) is network
        after = list(network.named_parameters())
        assert [name for name, _ in before] == [name for name, _ in after]
        assert all(a is b for (_, a), (_, b) in zip(before, after, strict=True))
        assert not any(type(module) in FAST_FORMS for module in network.modules())
        assert optimize_(network) is network  # twice changes nothing


def test_the_plain_network_comes_back_by_its_state_dict() -> None:
    fast = optimize_(tiny(), "float32")
    plain = BiLM(config=fast.config)
    plain.load_state_dict(fast.state_dict())
    words, index, packing = torch.randn(3, 4), torch.tensor([0, 1, 2]), Packing.from_lengths([2, 1])
    with torch.no_grad():
        torch.testing.assert_close(plain(words, index, packing).layers(), fast(words, index, packing).layers())


@pytest.mark.skipif(not operators.has_onednn(), reason="oneDNN's linear operators cannot be used")
def test_small_layers_are_fused_and_large_ones_are_not() -> None:
    small, large = optimize_(tiny(), "float32"), BiLM(config=ModelConfig(lstm=LstmConfig(dim=1024, projection_dim=512)))
    optimize_(large, "float32")
    assert isinstance(small, FastBiLM) and isinstance(large, FastBiLM)
    assert small.both_directions is not None and large.both_directions is None
    fused = [isinstance(layer, FastLstmLayer) and layer.fused is not None for layer in small.forward_layers]
    assert fused == [False, True]  # the first layer multiplies each distinct word once
    assert not any(isinstance(layer, FastLstmLayer) and layer.fused is not None for layer in large.forward_layers)


def test_other_devices_compute_as_the_plain_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # the meta device knows none
    bilm = optimize_(tiny().to("meta"))
    ids, packing = torch.ones(3, 50, dtype=torch.long, device="meta"), Packing.from_lengths([2, 1], "meta")
    words = bilm.token_encoder(ids, None)
    output = bilm(words, torch.zeros(3, dtype=torch.long, device="meta"), packing)
    assert output.layers().shape == (3, 3, 8) and output.layers().device.type == "meta"
    optimize_(bilm, "float32")  # nothing to pack
    head = optimize_(SoftmaxHead(n_words=9, dim=4).to("meta"))
    targets = torch.zeros(3, dtype=torch.long, device="meta")
    assert head(words, targets).shape == head.sampled(words, targets, 5).shape == (3,)


def test_int8_is_close_and_word_vectors_are_exact() -> None:
    plain = tiny()
    int8 = optimize_(deepcopy(plain), "int8")
    ids = torch.randint(1, 262, (3, 50), generator=torch.Generator().manual_seed(0))
    index, packing = torch.tensor([0, 1, 2]), Packing.from_lengths([2, 1])
    with torch.no_grad():
        words = plain.token_encoder(ids, None)
        torch.testing.assert_close(int8.token_encoder(ids, None), words)
        exact, found = plain(words, index, packing).layers(), int8(words, index, packing).layers()
    assert 0 < (found - exact).norm() < 0.05 * exact.norm()


def test_int8_cannot_be_turned_back() -> None:
    int8 = optimize_(tiny(), "int8")
    with pytest.raises(ConfigError, match="load the model again"):
        int8.state_dict()
    with pytest.raises(ConfigError, match="load the model again"):
        optimize_(int8, "float32")  # else they would pass for exact ones
