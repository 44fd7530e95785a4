"""The mix against its formula, and the module that tasks use."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.errors import ConfigError, InputError
from elmokit.nn.bilm import BiLM
from elmokit.nn.elmo import ElmoEmbedding
from elmokit.nn.packing import Packing
from elmokit.nn.padded import TokenIds, read_padded
from elmokit.nn.scalar_mix import ScalarMix


def test_formula() -> None:
    mix = ScalarMix(n_layers=3)
    mix.scalars.data = torch.tensor([0.1, -0.4, 0.7])
    mix.gamma.data = torch.tensor(1.7)
    layers = torch.randn(3, 2, 5, 4)
    s = np.exp([0.1, -0.4, 0.7]) / np.exp([0.1, -0.4, 0.7]).sum()
    expected = 1.7 * sum(s[j] * layers[j] for j in range(3))
    torch.testing.assert_close(mix(layers), expected.float())
    torch.testing.assert_close(mix(list(layers)), expected.float())
    assert mix.weights().tolist() == pytest.approx(s.tolist())
    assert mix.l2().item() == pytest.approx(0.01 + 0.16 + 0.49)


def test_equal_at_first_and_trainable() -> None:
    mix = ScalarMix(n_layers=3)
    layers = torch.randn(3, 7, 4)
    torch.testing.assert_close(mix(layers), layers.mean(0))
    mix(layers).sum().backward()
    assert mix.scalars.grad is not None and mix.gamma.grad is not None


def test_fixed_weights_are_before_the_softmax() -> None:
    mix = ScalarMix(n_layers=2, weights=[0.0, float(np.log(3))])
    layers = torch.stack((torch.zeros(3, 2), torch.ones(3, 2)))
    torch.testing.assert_close(mix(layers), torch.full((3, 2), 0.75))
    assert not any(parameter.requires_grad for parameter in mix.parameters())
    for same in (np.array([0.0, 1.5]), torch.tensor([0.0, 1.5])):
        assert torch.equal(ScalarMix(n_layers=2, weights=same).scalars, torch.tensor([0.0, 1.5]))


def test_top_only() -> None:
    mix = ScalarMix(n_layers=3, top_only=True)
    mix.gamma.data.fill_(2)
    layers = torch.randn(3, 4, 2)
    torch.testing.assert_close(mix(layers), 2 * layers[2])
    assert mix.weights().tolist() == [0, 0, 1]  # whatever the scalars are: they are not trained


def test_layer_norm_is_over_all_real_tokens_at_once() -> None:
    mix = ScalarMix(n_layers=1, layer_norm=True)
    layer = torch.tensor([[[1.0, 3.0], [5.0, 7.0], [100.0, -50.0]]])  # (B=1, T=3, 2D=2); the last is padding
    mask = torch.tensor([[True, True, False]])
    normed = mix(layer.unsqueeze(0), mask)  # mean 4, variance (9 + 1 + 1 + 9) / 4 = 5
    torch.testing.assert_close(normed[0, 0], torch.tensor([-3.0, -1.0]) / 5**0.5)
    torch.testing.assert_close(normed[0, 1], torch.tensor([1.0, 3.0]) / 5**0.5)


def test_wrong_number_of_layers() -> None:
    with pytest.raises(ConfigError, match="expected 3 layers, found 2"):
        ScalarMix(n_layers=3)(torch.zeros(2, 1, 4))
    with pytest.raises(ConfigError, match="expected 3 numbers"):
        ScalarMix(n_layers=3, weights=[1.0])


@pytest.fixture
def bilm() -> BiLM:
    config = ModelConfig(
        lstm=LstmConfig(dim=6, projection_dim=3),
        char_cnn=CharCnnConfig(embedding_dim=2, filters=((1, 3), (2, 2)), n_highway=1, max_characters=6),
    )
    network = BiLM(config=config)
    generator = torch.Generator().manual_seed(3)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.6, generator=generator)
    return network.eval()


MARKS = TokenIds(torch.tensor([[259, 257, 260, 261, 261, 261], [259, 258, 260, 261, 261, 261]]))
ROWS = torch.tensor([[259, 98, 260, 261, 261, 261], [259, 99, 100, 260, 261, 261], [259, 260, 261, 261, 261, 261]])
ZERO = torch.zeros(6, dtype=torch.long)
SENTENCES = ((ROWS[0], ZERO, ZERO), (ROWS[1], ROWS[0], ROWS[2]), (ZERO, ZERO, ZERO))
BATCH = torch.stack([torch.stack(sentence) for sentence in SENTENCES])


def by_hand(bilm: BiLM, rows: torch.Tensor) -> torch.Tensor:
    """(L + 1, n + 2, 2D): one sentence, every token encoded for itself."""
    ids = torch.cat((MARKS.characters[:1], rows, MARKS.characters[1:]))  # type: ignore[index]
    vectors = torch.cat([bilm.token_encoder(row.unsqueeze(0), None) for row in ids])
    return bilm(vectors, torch.arange(len(ids)), Packing.from_lengths([len(ids)])).layers()


def test_padded_reading_equals_one_sentence_at_a_time(bilm: BiLM) -> None:
    mask = (BATCH > 0).any(-1)
    read = read_padded(bilm, TokenIds(BATCH), mask, MARKS)
    assert read.layers.shape == (3, 3, 5, 6)
    layers, inner = read.without_marks()
    assert torch.equal(inner, mask)
    for b, n in enumerate((1, 3, 0)):
        expected = by_hand(bilm, BATCH[b, :n])
        torch.testing.assert_close(read.layers[:, b, : n + 2], expected)
        torch.testing.assert_close(layers[:, b, :n], expected[:, 1:-1])
        assert (read.layers[:, b, n + 2 :] == 0).all() and (layers[:, b, n:] == 0).all()
        assert read.mask[b].tolist() == [True] * (n + 2) + [False] * (3 - n)


def test_module_for_tasks(bilm: BiLM) -> None:
    elmo = ElmoEmbedding(bilm, marks=MARKS, n_mixes=2, dropout=0.0)
    output = elmo(TokenIds(BATCH))
    assert [r.shape for r in output.representations] == [(3, 3, 6)] * 2
    layers, _ = read_padded(bilm, TokenIds(BATCH), output.mask, MARKS).without_marks()
    torch.testing.assert_close(output.representations[0], layers.mean(0))
    torch.testing.assert_close(elmo.mix(layers, output.mask).representations[1], output.representations[1])
    sum(r.sum() for r in output.representations).backward()
    assert all(p.grad is not None for p in elmo.mixes.parameters())
    assert all(p.grad is None for p in bilm.parameters())
    assert elmo.l2().item() == 0


def test_fine_tuning_reaches_every_parameter(bilm: BiLM) -> None:
    elmo = ElmoEmbedding(bilm, marks=MARKS, dropout=0.0, trainable=True)
    elmo(TokenIds(BATCH)).representations[0].square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in bilm.parameters())


def test_dropout_is_for_training_only(bilm: BiLM) -> None:
    elmo = ElmoEmbedding(bilm, marks=MARKS, dropout=0.5)
    torch.manual_seed(0)
    trained = elmo(TokenIds(BATCH)).representations[0]
    still = elmo.eval()(TokenIds(BATCH)).representations[0]
    kept = trained != 0
    assert 0 < kept[:2].sum() < still[:2].count_nonzero()
    torch.testing.assert_close(trained[kept], 2 * still[kept])


def test_gradients_of_the_whole_network(bilm: BiLM) -> None:
    """Token encoder, both directions and residuals, in double precision against finite differences."""
    bilm = bilm.double()
    parameters = list(bilm.parameters())
    mask = (BATCH > 0).any(-1)

    def run(*_: torch.Tensor) -> torch.Tensor:
        return read_padded(bilm, TokenIds(BATCH), mask, MARKS).layers

    assert torch.autograd.gradcheck(run, tuple(parameters), atol=1e-5, fast_mode=True)


def test_masks_of_any_kind(bilm: BiLM) -> None:
    elmo = ElmoEmbedding(bilm, marks=MARKS, dropout=0.0, layer_norm=True)
    mask = (BATCH > 0).any(-1)
    expected = elmo(TokenIds(BATCH), mask).representations[0]
    torch.testing.assert_close(elmo(TokenIds(BATCH), mask.long()).representations[0], expected)
    layers = torch.randn(3, 3, 3, 6)
    torch.testing.assert_close(elmo.mixes[0](layers, mask.long()), elmo.mixes[0](layers, mask))
    nothing = elmo(TokenIds(torch.zeros_like(BATCH))).representations[0]  # normalised over no tokens at all
    assert torch.equal(nothing, torch.zeros(3, 3, 6))
    with pytest.raises(InputError, match="mask: expected each sentence's tokens first"):
        elmo(TokenIds(BATCH.flip(1)))
    with pytest.raises(InputError, match="mask: expected one, as this model reads no characters"):
        elmo(TokenIds(words=torch.zeros(1, 1, dtype=torch.long)))
