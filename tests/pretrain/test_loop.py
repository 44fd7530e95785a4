"""The training loop."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path

import pytest
import synthetic
import torch
from torch import nn

from elmokit.errors import ConfigError, ElmoError
from elmokit.nn.cpu.operators import has_bfloat16
from elmokit.nn.softmax import SoftmaxHead
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.loop import TrainingStep, clip_gradients, train
from elmokit.pretrain.loss import bilm_loss
from elmokit.pretrain.training_batch import make_batch
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.characters import ByteCharacters


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return synthetic.write(tmp_path / "train.txt", 200)


def steps(state: TrainingState, n: int | None = None) -> list[TrainingStep]:
    return list(islice(train(state, Corpus(state.settings.train)), n))


def weights(state: TrainingState) -> dict[str, torch.Tensor]:
    return {**state.bilm.state_dict(), **state.head.state_dict()}


def equal(a: TrainingState, b: TrainingState) -> bool:
    return all(torch.equal(x, y) for x, y in zip(weights(a).values(), weights(b).values(), strict=True))


# ---- the step


def test_one_step_is_the_update_worked_out_by_hand(text: Path) -> None:
    """Adagrad from an accumulator of 1: w - rate * g / sqrt(1 + g^2), with g clipped."""
    changes = {
        "optimizer": "adagrad",
        "loss_scale": 20.0,
        "clip": 5.0,
        "learning_rate": 0.2,
        "dropout": 0.0,
        "warm_up": 0,
        "decay": "none",
        "batch_tokens": 40,
    }
    state, twin = (synthetic.state(text, **changes) for _ in range(2))
    share = next(Corpus(str(text)).batches(batch_tokens=40, seed=0))
    loss = bilm_loss(twin.bilm, twin.head, make_batch(share.sentences, twin.vocabulary, ByteCharacters(12)))
    (20 * loss.mean()).backward()
    parameters = [*twin.bilm.parameters(), *twin.head.parameters()]
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in parameters))  # type: ignore[union-attr]
    [step] = steps(state, 1)
    assert step.loss == pytest.approx(loss.mean().item(), rel=1e-6)
    assert step.gradient_norm == pytest.approx(norm, rel=1e-5)
    assert norm > 5  # else nothing was clipped
    for p, after in zip(parameters, weights(state).values(), strict=True):
        g = p.grad * 5 / norm
        torch.testing.assert_close(after, p.detach() - 0.2 * g / (1 + g * g).sqrt(), atol=1e-6, rtol=1e-5)


def test_the_loss_falls_and_steps_say_what_happened(text: Path) -> None:
    state = synthetic.state(text, steps=40)
    made = steps(state)
    assert [step.step for step in made] == list(range(1, 41))
    assert made[-1].loss < made[0].loss - 0.5
    assert made[0].loss == pytest.approx(math.log(len(state.vocabulary)), abs=1)
    assert [step.is_last for step in made] == [False] * 39 + [True]
    assert made[-1].tokens == state.tokens and made[-1].epoch == state.epochs
    assert [a.tokens for a in made] == sorted(a.tokens for a in made)
    assert not steps(state)  # it is complete


def test_epochs_end_where_the_text_does(text: Path) -> None:
    n_tokens = sum(len(line.split()) + 1 for line in text.read_text().splitlines())
    state = synthetic.state(text, epochs=2)
    assert steps(state)[-1].tokens == 2 * n_tokens
    assert state.epochs == pytest.approx(2)
    half = synthetic.state(text, epochs=0.5)
    assert steps(half)[-1].tokens == pytest.approx(n_tokens / 2, rel=0.1)


def test_minutes_end(text: Path) -> None:
    state = synthetic.state(text, minutes=0.5 / 60)
    assert 1 <= len(steps(state)) < 2000
    assert 0.5 <= state.seconds < 5


@pytest.mark.parametrize("loss", ["full", "sampled", "adaptive"])
@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_every_loss_learns_with_every_optimizer(text: Path, loss: str, optimizer: str) -> None:
    rate = 0.02 if optimizer == "adam" else 0.3
    scale = 1.0 if optimizer == "adam" else 20.0
    state = synthetic.state(
        text, steps=40, loss=loss, optimizer=optimizer, learning_rate=rate, loss_scale=scale, clip=10.0
    )
    made = steps(state)
    assert sum(step.loss for step in made[-5:]) < sum(step.loss for step in made[:5]) - 1.5


def test_accumulated_batches_make_the_step_of_their_union(text: Path) -> None:
    """Without dropout, the gradient of two batches is that of all their tokens together."""
    state, twin = (synthetic.state(text, dropout=0.0, accumulate=n) for n in (3, 1))
    [step] = steps(state, 1)
    shares = list(islice(Corpus(str(text)).batches(batch_tokens=60, seed=0), 3))
    batch = make_batch([s for share in shares for s in share.sentences], twin.vocabulary, ByteCharacters(12))
    loss = bilm_loss(twin.bilm, twin.head, batch).mean()
    loss.backward()
    norm = math.sqrt(sum(float(p.grad.square().sum()) for m in (twin.bilm, twin.head) for p in m.parameters()))  # type: ignore[union-attr]
    assert step.loss == pytest.approx(loss.item(), rel=1e-5)
    assert step.gradient_norm == pytest.approx(norm, rel=1e-4)
    assert step.tokens == sum(share.n_tokens for share in shares)


@pytest.mark.parametrize("loss", ["full", "sampled", "adaptive"])
@pytest.mark.skipif(not has_bfloat16(), reason="this CPU has no bfloat16 products")
def test_bfloat16_where_it_is_asked_for(text: Path, loss: str) -> None:
    exact, rounded = (
        steps(synthetic.state(text, loss=loss, steps=8, precision=precision)) for precision in ("auto", "bfloat16")
    )
    assert rounded[0].loss != exact[0].loss and rounded[0].loss == pytest.approx(exact[0].loss, rel=0.01)
    assert rounded[-1].loss == pytest.approx(exact[-1].loss, rel=0.02)


def test_frozen_moves_the_softmax_alone(text: Path) -> None:
    state, before = (synthetic.state(text, frozen=True) for _ in range(2))
    steps(state)
    assert all(torch.equal(a, b) for a, b in zip(state.bilm.parameters(), before.bilm.parameters(), strict=True))
    assert isinstance(state.head, SoftmaxHead) and isinstance(before.head, SoftmaxHead)
    assert not torch.equal(state.head.weight, before.head.weight)


# ---- random numbers


def test_the_same_seed_makes_the_same_run_and_leaves_other_random_numbers_alone(text: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = (synthetic.state(text, loss="sampled", seed=seed) for seed in (0, 0, 1))
    for state in (one, two, other):
        steps(state)
    assert torch.equal(torch.rand(3), expected)
    assert equal(one, two)
    assert not equal(one, other)


def test_dropout_differs_from_step_to_step(text: Path) -> None:
    dropped, plain = (steps(synthetic.state(text, dropout=p, steps=4)) for p in (0.5, 0.0))
    assert all(a.loss != b.loss for a, b in zip(dropped, plain, strict=True))


# ---- what goes wrong


def test_what_is_no_number_stops_before_the_update(text: Path) -> None:
    state = synthetic.state(text)
    assert isinstance(state.head, SoftmaxHead)
    steps(state, 2)
    state.head.bias.data[3] = math.nan
    kept = {name: tensor.clone() for name, tensor in weights(state).items()}
    with pytest.raises(ElmoError, match=r"step 3: expected a finite loss.*learning_rate"):
        steps(state)
    assert state.step == 2
    for name, tensor in weights(state).items():
        torch.testing.assert_close(tensor, kept[name], rtol=0, atol=0, equal_nan=True)


def test_a_loss_beyond_all_bounds_has_an_infinite_perplexity(text: Path) -> None:
    state = synthetic.state(text)
    assert isinstance(state.head, SoftmaxHead)
    state.head.bias.data[3] = 1e6
    [step] = steps(state, 1)
    assert step.loss > 1e5 and step.perplexity == math.inf


def test_the_perplexity_shown_is_that_of_recent_steps(text: Path) -> None:
    """Of a loss that falls fast, a mean over all steps would be far above what the model has now."""
    made = steps(synthetic.state(text, steps=60))
    losses = [step.loss for step in made]
    recent, all_of_them = math.exp(sum(losses[-6:]) / 6), math.exp(sum(losses) / len(losses))
    assert abs(made[-1].perplexity - recent) < 0.2 * abs(all_of_them - recent)


def test_divergence_is_told(text: Path) -> None:
    state = synthetic.state(text, steps=500, learning_rate=30.0, warm_up=0, decay="none", clip=1e9, optimizer="adagrad")
    with pytest.raises(ElmoError, match=r"diverged|finite"):
        steps(state)
    assert state.step < 500


def test_a_request_to_stop_ends_after_the_step(text: Path) -> None:
    state = synthetic.state(text)
    made = list(train(state, Corpus(str(text)), stop=lambda: state.step >= 4))
    assert [step.stopped for step in made] == [False] * 4 + [True]
    assert state.step == 5


def test_a_sample_larger_than_the_vocabulary(text: Path) -> None:
    with pytest.raises(ConfigError, match=r"n_samples: expected fewer than the 29 words.*loss full"):
        steps(synthetic.state(text, loss="sampled", n_samples=500))


# ---- gradients


def test_clipping_counts_a_row_that_was_used_twice_once() -> None:
    table = nn.Parameter(torch.ones(5, 2))
    dense = nn.Parameter(torch.ones(3))
    rows = nn.functional.embedding(torch.tensor([1, 1, 4]), table, sparse=True)
    (rows.sum() + 2 * dense.sum()).backward()
    expected = math.sqrt(2 * 2**2 + 2 * 1 + 3 * 2**2)
    assert clip_gradients([table, dense], 1.0) == pytest.approx(expected)
    assert table.grad is not None and dense.grad is not None
    assert clip_gradients([table, dense], 100.0) == pytest.approx(1.0)
    torch.testing.assert_close(table.grad.to_dense()[1], torch.full((2,), 2 / expected))


def test_a_run_with_noise_can_be_repeated_and_differs_from_one_without(tmp_path: Path) -> None:
    text = synthetic.write(tmp_path / "train.txt", 60)
    losses = {
        noise: [
            [step.loss for step, _ in zip(train(state, Corpus(str(text))), range(4), strict=False)]
            for state in (synthetic.state(text, noise=noise, steps=4, epochs=None) for _ in range(2))
        ]
        for noise in (0.0, 0.5)
    }
    assert losses[0.5][0] == losses[0.5][1]
    assert losses[0.5][0] != losses[0.0][0]
